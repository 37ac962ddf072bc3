"""A ledger row in the making, and how drafts of one physical shape become one row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

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


def row_major() -> dict[str, Any]:
    """The layout of every op whose tensors are contiguous, last axis fastest."""
    return {"row_major": True}


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One shape that one model uses, before equal shapes of several models are one row.

    `occurrences` counts the steps or launches of a trace, `baseline_us` their kernel time where the trace has it.
    """

    op_type: str
    model: str
    stage: Stage
    dtype: str
    args: Mapping[str, ArgValue]
    source: Source
    kernel_name: str = ""
    layout: Mapping[str, Any] = msgspec.field(default_factory=row_major)
    occurrences: int | None = None
    baseline_us: float | None = None
    notes: str = ""

    @property
    def physical(self) -> tuple[Any, ...]:
        """What the hardware sees: everything of the identity but the model and the stage."""
        return self.op_type, self.dtype, _frozen(self.layout), _frozen(self.args)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted((key, _frozen(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    # True and 1 hash alike but are written differently.
    return (type(value).__name__, value) if isinstance(value, bool) else value


def physical(shape: Shape) -> tuple[Any, ...]:
    """What the hardware sees of a ledger row; two rows that agree in it measure the same thing."""
    return shape.op_type, shape.dtype, _frozen(shape.layout), _frozen(shape.args)


def rows(drafts: Iterable[Draft], *, baselines: Mapping[str, tuple[str, ...]]) -> list[Shape]:
    """Ledger rows in their stable order, one per (physical shape, stage).

    Models of equal shapes are joined with "|" in the order they come. Occurrences and times are summed and give
    `traffic_weight` and `baseline_time_weight`: the row's share of its op's, to 6 decimals. `baselines` names the
    measured rivals of each op.
    """
    groups: dict[tuple[Any, ...], list[Draft]] = {}
    for draft in drafts:
        groups.setdefault((draft.stage, *draft.physical), []).append(draft)
    totals: dict[str, _Total] = {}
    for group in groups.values():
        totals[group[0].op_type] = totals.get(group[0].op_type, _Total()).plus(group)
    shapes = [
        _row(group, total=totals[group[0].op_type], rivals=baselines.get(group[0].op_type, ()))
        for group in groups.values()
    ]
    return sorted(shapes, key=order_key)


class _Total(msgspec.Struct, frozen=True):
    """Occurrences and kernel time of one op's rows; what a row's shares are taken of."""

    occurrences: int = 0
    baseline_us: float = 0.0

    def plus(self, group: list[Draft]) -> _Total:
        return _Total(self.occurrences + (_count(group) or 0), self.baseline_us + (_time(group) or 0.0))

    def weight(self, group: list[Draft]) -> Weight:
        count, time = _count(group), _time(group)
        return Weight(
            occurrences=count,
            traffic_weight=_share(count, self.occurrences),
            baseline_time_weight=_share(time, self.baseline_us),
        )


def _count(group: list[Draft]) -> int | None:
    counts = [draft.occurrences for draft in group if draft.occurrences is not None]
    return sum(counts) if counts else None


def _time(group: list[Draft]) -> float | None:
    times = [draft.baseline_us for draft in group if draft.baseline_us is not None]
    return math.fsum(times) if times else None


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None or not whole > 0 else round(part / whole, 6)


def _row(group: list[Draft], *, total: _Total, rivals: tuple[str, ...]) -> Shape:
    first = group[0]
    model = "|".join(dict.fromkeys(name for draft in group for name in draft.model.split("|")))
    layout, args = dict(first.layout), dict(first.args)
    return Shape(
        shape_id=compute_shape_id(
            op_type=first.op_type, model=model, stage=first.stage, dtype=first.dtype, layout=layout, args=args
        ),
        op_type=first.op_type,
        kernel_name=first.kernel_name or first.op_type,
        model=model,
        stage=first.stage,
        arch=ARCH,
        gpu=GPU,
        dtype=first.dtype,
        layout=layout,
        args=args,
        source=first.source,
        weight=total.weight(group),
        baselines_available=rivals,
        notes="; ".join(dict.fromkeys(draft.notes for draft in group if draft.notes)),
    )


def one_row_per_physical_shape(drafts: Iterable[Draft]) -> list[Draft]:
    """Drafts without repetition over stages: a probe of a shape that a model uses is dropped, a shape seen in
    prefill and in decode becomes `mixed`, and one that a trace has seen is no longer only a model's dimension.
    """
    groups: dict[tuple[Any, ...], list[Draft]] = {}
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
