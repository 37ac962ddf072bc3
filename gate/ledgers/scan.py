"""Knows how ledger lines are gone through one at a time, so that a million rows need no more memory than their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from gate.ledgers.known import unknown
from gate.model.problem import Problem
from gate.model.shape import Shape, expected_id, fault

_DECODER = msgspec.json.Decoder(Shape)
FIX = "import or build the ledger again instead of editing it"


def rows(lines: Iterable[tuple[int, bytes]], *, file: str) -> Iterator[tuple[int, Shape | Problem]]:
    """Each line as a shape, or as the problem that refuses it: not JSON, not a shape, an op that
    nobody knows, a dtype or size that no kernel has, a wrong id, an id again.
    """
    seen: dict[str, int] = {}
    for number, raw in lines:
        try:
            shape = _DECODER.decode(raw)
            want = expected_id(shape)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
            yield number, Problem(what=f"not a ledger row: {error}", file=file, line=number, fix=FIX)
            continue
        why = fault(op_type=shape.op_type, dtype=shape.dtype, args=shape.args) or unknown(shape.op_type)
        if why:
            pass
        elif shape.shape_id != want:
            why = f"shape_id {shape.shape_id} is not {want}, the id of its fields"
        elif seen.setdefault(want, number) != number:
            why = f"{want} is already on line {seen[want]}"
        yield number, Problem(what=why, file=file, line=number, fix=FIX, shape_id=want) if why else shape


GROUPS = ("op", "stage", "source", "dtype", "model")


class Tally:
    """Counts rows by op, stage, source, dtype and model; a row of several models counts for each of them."""

    def __init__(self) -> None:
        self.kinds: Counter[tuple[str, ...]] = Counter()
        self.weighted = 0

    def add(self, shape: Shape) -> None:
        """Counts one row."""
        self.kinds[shape.op_type, shape.stage, shape.source.kind, shape.dtype, shape.model] += 1
        self.weighted += shape.weight.value is not None

    @property
    def rows(self) -> int:
        """How many rows were counted."""
        return self.kinds.total()

    def counts(self) -> dict[str, dict[str, int]]:
        """Rows by group and name, sorted by name."""
        found: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}
        for kind, count in self.kinds.items():
            for group, value in zip(GROUPS, kind, strict=True):
                for name in value.split("|") if group == "model" else (value,):
                    found[group][name] += count
        return {group: dict(sorted(counter.items())) for group, counter in found.items()}

    def plain(self) -> dict[str, object]:
        """The counts as plain data."""
        return {"rows": self.rows, "weighted": self.weighted, **self.counts()}


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows are meant: each field empty or one of its values; `model` matches a part of the name."""

    ops: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    model: str = ""

    def __call__(self, shape: Shape) -> bool:
        return (
            (not self.ops or shape.op_type in self.ops)
            and (not self.stages or shape.stage in self.stages)
            and (not self.sources or shape.source.kind in self.sources)
            and (not self.dtypes or shape.dtype in self.dtypes)
            and self.model.lower() in shape.model.lower()
        )
