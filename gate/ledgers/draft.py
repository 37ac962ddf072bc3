"""A ledger row in the making, and how drafts of one physical shape become one row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict, TypeVar, Unpack

import msgspec

from gate.ledgers.ops.point import Cell
from gate.model.shape import (
    UNREAL_STAGES,
    ArgValue,
    Shape,
    Source,
    Stage,
    Weight,
    compute_shape_id,
    order_key,
)

ARCH = "gfx950"
GPU = "MI350X"


_ROW_MAJOR: dict[str, Any] = {"row_major": True}
NO_WEIGHT = Weight()


def row_major() -> dict[str, Any]:
    """The layout of every op whose tensors are contiguous, last axis fastest. One object for all rows."""
    return _ROW_MAJOR


class Origin(TypedDict):
    """Where a derived shape comes from, in Draft's fields."""

    op_type: str
    model: str
    stage: Stage
    source: Source
    occurrences: NotRequired[int | None]
    baseline_us: NotRequired[float | None]


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One shape that one model uses, before equal shapes of several models are one row.

    `occurrences` counts the steps or launches of a trace, `baseline_us` their kernel time where the trace has it.
    """

    op_type: str
    model: str
    stage: Stage
    dtype: str
    args: dict[str, ArgValue]
    source: Source
    kernel_name: str = ""
    layout: dict[str, Any] = msgspec.field(default_factory=row_major)
    occurrences: int | None = None
    baseline_us: float | None = None
    notes: str = ""

    @classmethod
    def of_cell(cls, cell: Cell, *, why: str = "", **origin: Unpack[Origin]) -> Draft:
        """The draft of a derived shape; `why` follows the cell's own notes."""
        notes = "; ".join(part for part in (cell.notes, why) if part)
        return cls(dtype=cell.dtype, args=cell.args, kernel_name=cell.kernel_name, notes=notes, **origin)

    @property
    def physical(self) -> bytes:
        """What the hardware sees, as a digest: everything of the identity but the model and the stage."""
        return _digest(self.op_type, self.dtype, self.layout, self.args)


def physical(shape: Shape) -> bytes:
    """What the hardware sees of a ledger row; two rows that agree in it measure the same thing."""
    return _digest(shape.op_type, shape.dtype, shape.layout, shape.args)


def _digest(op_type: str, dtype: str, layout: Mapping[str, Any], args: Mapping[str, Any]) -> bytes:
    if any(type(value) is float and value.is_integer() for value in args.values()):
        # To the contract 8192.0 is 8192.
        args = {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in args.items()
        }
    text = msgspec.json.encode((op_type, dtype, layout, args), order="sorted")
    return hashlib.blake2b(text, digest_size=16).digest()


def rows(drafts: Iterable[Draft], *, baselines: Mapping[str, tuple[str, ...]]) -> list[Shape]:
    """Ledger rows in their stable order, one per (physical shape, stage).

    Models of equal shapes are joined with "|" in the order they come. Occurrences and times are summed and give
    `traffic_weight` and `baseline_time_weight`: the row's share of its op's, to 6 decimals. `baselines` names the
    measured rivals of each op.
    """
    merged: dict[bytes, Draft] = {}
    for draft in drafts:
        key = draft.stage.encode() + draft.physical
        there = merged.get(key)
        merged[key] = draft if there is None else _joined(there, draft)
    totals: dict[str, _Total] = {}
    for draft in merged.values():
        totals[draft.op_type] = totals.get(draft.op_type, _Total()).plus(draft)
    shapes = []
    while merged:
        _, draft = merged.popitem()
        shapes.append(_row(draft, weight=totals[draft.op_type].weight(draft), rivals=baselines.get(draft.op_type, ())))
    shapes.sort(key=order_key)
    return shapes


def _joined(first: Draft, second: Draft) -> Draft:
    """Two drafts of one shape as one: names and notes that differ are joined, counts and times are summed."""
    models = dict.fromkeys([*first.model.split("|"), *second.model.split("|")])
    notes = dict.fromkeys(note for draft in (first, second) for note in draft.notes.split("; ") if note)
    return msgspec.structs.replace(
        first,
        model="|".join(models),
        notes="; ".join(notes),
        occurrences=_sum(first.occurrences, second.occurrences),
        baseline_us=_sum(first.baseline_us, second.baseline_us),
    )


_Number = TypeVar("_Number", int, float)


def _sum(first: _Number | None, second: _Number | None) -> _Number | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


class _Total(msgspec.Struct, frozen=True):
    """Occurrences and kernel time of one op's rows; what a row's shares are taken of."""

    occurrences: int = 0
    baseline_us: float = 0.0

    def plus(self, draft: Draft) -> _Total:
        if draft.occurrences is None and draft.baseline_us is None:
            return self
        return _Total(self.occurrences + (draft.occurrences or 0), self.baseline_us + (draft.baseline_us or 0.0))

    def weight(self, draft: Draft) -> Weight:
        if draft.occurrences is None and draft.baseline_us is None:
            return NO_WEIGHT
        return Weight(
            occurrences=draft.occurrences,
            traffic_weight=_share(draft.occurrences, self.occurrences),
            baseline_time_weight=_share(draft.baseline_us, self.baseline_us),
        )


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None or not whole > 0 else round(part / whole, 6)


def _row(draft: Draft, *, weight: Weight, rivals: tuple[str, ...]) -> Shape:
    return Shape(
        shape_id=compute_shape_id(
            op_type=draft.op_type,
            model=draft.model,
            stage=draft.stage,
            dtype=draft.dtype,
            layout=draft.layout,
            args=draft.args,
        ),
        op_type=draft.op_type,
        kernel_name=draft.kernel_name or draft.op_type,
        model=draft.model,
        stage=draft.stage,
        arch=ARCH,
        gpu=GPU,
        dtype=draft.dtype,
        layout=draft.layout,
        args=draft.args,
        source=draft.source,
        weight=weight,
        baselines_available=rivals,
        notes=draft.notes,
    )


def one_row_per_physical_shape(drafts: Iterable[Draft]) -> list[Draft]:
    """Drafts without repetition over stages: a probe of a shape that a model uses is dropped, a shape seen in
    prefill and in decode becomes `mixed`, and one that a trace has seen is no longer only a model's dimension.
    """
    groups: dict[bytes, list[Draft]] = {}
    for draft in drafts:
        groups.setdefault(draft.physical, []).append(draft)
    return [draft for group in groups.values() for draft in _settle(group)]


def _settle(group: list[Draft]) -> list[Draft]:
    real = [draft for draft in group if draft.stage not in UNREAL_STAGES]
    if not real:
        return [msgspec.structs.replace(draft, stage=group[0].stage, source=group[0].source) for draft in group]
    seen = [draft for draft in real if draft.occurrences is not None]
    stages = {draft.stage for draft in seen or real}
    stage: Stage = stages.pop() if len(stages) == 1 else "mixed"
    source = (seen or real)[0].source
    return [msgspec.structs.replace(draft, stage=stage, source=source) for draft in real]
