"""Turns how often a server ran which steps into weighted shapes, for any op that follows from a model and a step."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from gate.ledgers.draft import Draft
from gate.ledgers.facts import Model
from gate.ledgers.ops import DERIVE
from gate.ledgers.ops.point import Point
from gate.model.problem import Problem, UnusableInput
from gate.model.shape import Source, Stage

TRAFFIC_FILE = Path(__file__).with_name("traffic.toml")


def bucket(value: int, sizes: tuple[int, ...] = ()) -> int:
    """The bucket a count falls into: the smallest of `sizes` not below it (the largest if it is past all), or the
    next power of two where no sizes are given. Zero stays zero.
    """
    if not sizes:
        return 1 << (value - 1).bit_length() if value > 0 else 0
    return next((size for size in sorted(sizes) if size >= value), max(sizes))


def drafts(op: str, *, model: Model, steps: Mapping[Point, int], dtype: str, source: Source) -> Iterator[Draft]:
    """The op's shapes at each step with the number of steps as occurrences."""
    for point, count in steps.items():
        stage: Stage = "decode" if point.phase == "decode" else "prefill"
        for cell in DERIVE[op](model, point, dtype):
            yield Draft.of_cell(cell, op_type=op, model=model.name, stage=stage, source=source, occurrences=count)


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One serving run: steps counted by tokens, per phase."""

    model: str
    tp: int
    what: str
    decode: dict[str, int]
    prefill: dict[str, int]

    def steps(self) -> dict[Point, int]:
        """The run's steps as points without context, which token counts do not tell."""
        phases = (("decode", self.decode), ("prefill", self.prefill))
        return {
            Point(tokens=int(tokens), tp=self.tp, phase=phase): count
            for phase, counts in phases
            for tokens, count in counts.items()
        }


class _Runs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: tuple[Run, ...]


@cache
def packaged_runs() -> tuple[Run, ...]:
    """The serving runs that the frozen ledgers are weighted by."""
    try:
        return msgspec.toml.decode(TRAFFIC_FILE.read_bytes(), type=_Runs).run
    except (msgspec.DecodeError, tomllib.TOMLDecodeError) as error:
        raise UnusableInput(Problem(what=f"not a list of runs: {error}", file=TRAFFIC_FILE.name)) from None


def weighted(
    op: str, *, dtype: str, names: Iterable[str], runs: Iterable[Run], models: Mapping[str, Model]
) -> Iterator[Draft]:
    """The op's shapes in the recorded runs of the named models."""
    wanted = frozenset(names)
    for run in runs:
        if run.model in wanted:
            source = Source(kind="sglang_trace", file=TRAFFIC_FILE.name, notes=run.what)
            yield from drafts(op, model=models[run.model], steps=run.steps(), dtype=dtype, source=source)
