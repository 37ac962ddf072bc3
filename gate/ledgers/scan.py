"""Knows how ledger lines are gone through one at a time, so that a million rows need no more memory than their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from gate.model.problem import Problem
from gate.model.shape import Shape, expected_id

_DECODER = msgspec.json.Decoder(Shape)
FIX = "import or build the ledger again instead of editing it"


def rows(lines: Iterable[tuple[int, bytes]], *, file: str) -> Iterator[tuple[int, Shape | Problem]]:
    """Each line as a shape, or as the problem that refuses it: not JSON, not a shape, a wrong id, an id again."""
    seen: dict[str, int] = {}
    for number, raw in lines:
        try:
            shape = _DECODER.decode(raw)
            want = expected_id(shape)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
            yield number, Problem(what=f"not a ledger row: {error}", file=file, line=number, fix=FIX)
            continue
        fault = ""
        if shape.shape_id != want:
            fault = f"shape_id {shape.shape_id} is not {want}, the id of its fields"
        elif seen.setdefault(want, number) != number:
            fault = f"{want} is already on line {seen[want]}"
        yield number, Problem(what=fault, file=file, line=number, fix=FIX, shape_id=want) if fault else shape


# What rows are counted by: a title and the value of a row.
GROUPS: dict[str, Callable[[Shape], str]] = {
    "op": lambda shape: shape.op_type,
    "stage": lambda shape: shape.stage,
    "source": lambda shape: shape.source.kind,
    "dtype": lambda shape: shape.dtype,
    "model": lambda shape: shape.model,
}


class Tally:
    """Counts rows by op, stage, source, dtype and model; a row of several models counts for each of them."""

    def __init__(self) -> None:
        self.rows = 0
        self.weighted = 0
        self.counts: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}

    def add(self, shape: Shape) -> None:
        """Counts one row."""
        self.rows += 1
        self.weighted += shape.weight.value is not None
        for group, value in GROUPS.items():
            for name in value(shape).split("|") if group == "model" else (value(shape),):
                self.counts[group][name] += 1

    def plain(self) -> dict[str, object]:
        """The counts as plain data, each group sorted by name."""
        groups = {group: dict(sorted(counter.items())) for group, counter in self.counts.items()}
        return {"rows": self.rows, "weighted": self.weighted, **groups}


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
