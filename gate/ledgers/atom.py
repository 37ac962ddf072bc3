"""Knows ATOM's serving anchors: input length, output length and concurrency of a benchmarked scenario.

An anchor says what a server is asked, not what it ran: its rows carry no weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gate.ledgers.draft import Draft
from gate.ledgers.facts import Model
from gate.ledgers.ops import DERIVE
from gate.ledgers.ops.point import Args, Cell, Point, size
from gate.model.problem import Problem
from gate.model.shape import Source, Stage

KIND = "atom_workload"
SCENARIO = "serving_scenario"
# A server splits a prefill into chunks of at most so many tokens.
CHUNK = 131072
NAMES: Mapping[str, tuple[str, ...]] = {
    "input_len": ("input_len", "isl", "input_length", "random_input_len"),
    "output_len": ("output_len", "osl", "output_length", "random_output_len"),
    "concurrency": ("concurrency", "max_concurrency", "conc"),
}


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario: lengths in tokens, requests at once, and the model if the source names one."""

    input_len: int
    output_len: int
    concurrency: int
    model: str | None = None


def read(document: Any, *, file: str) -> tuple[list[Anchor], list[Problem]]:
    """The anchors of a parsed list (or of its `scenarios`), and a problem for each entry that is none."""
    entries = document.get("scenarios") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        return [], [Problem(what="not a list of scenarios", file=file)]
    anchors: list[Anchor] = []
    problems: list[Problem] = []
    for position, entry in enumerate(entries):
        try:
            anchors.append(_anchor(entry))
        except ValueError as error:
            problems.append(Problem(what=f"scenario {position}: {error}", file=file))
    return anchors, problems


def _anchor(entry: Any) -> Anchor:
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    values = {}
    for field, names in NAMES.items():
        given = [name for name in names if name in entry]
        if not given:
            raise ValueError(f"lacks {field}")
        values[field] = size(entry[given[0]], given[0])
    model = entry.get("model")
    return Anchor(**values, model=model if isinstance(model, str) and model else None)


def scenarios(anchors: Sequence[Anchor], *, model: str | None) -> Iterator[Draft]:
    """A row a scenario: no kernel's shape, but what a serving benchmark of it must offer."""
    for anchor in anchors:
        args: Args = {"input_len": anchor.input_len, "output_len": anchor.output_len, "concurrency": anchor.concurrency}
        cell = Cell(dtype="bf16", args=args)
        yield _draft(SCENARIO, cell, anchor, model=model or anchor.model or "any", stage="mixed")


def kernels(
    anchors: Sequence[Anchor], *, ops: Sequence[str], model: Model, tp: int, dtype: str, chunk: int = CHUNK
) -> Iterator[Draft]:
    """Kernel shapes of the scenarios for a known model: prefill of all requests at once up to a chunk, and decode
    of one token a request over the input and half of the output.
    """
    for anchor in anchors:
        asked = anchor.input_len * anchor.concurrency
        tokens = min(asked, chunk)
        batch = min(anchor.concurrency, tokens)
        prefill = Point(tokens=tokens, tp=tp, phase="prefill", batch=batch)
        context = anchor.input_len + anchor.output_len // 2
        decode = Point(tokens=anchor.concurrency, tp=tp, phase="decode", batch=anchor.concurrency, context=context)
        clipped = f"chunk of {asked} tokens" if asked > chunk else ""
        stages: tuple[tuple[Point, Stage, str], ...] = ((prefill, "prefill", clipped), (decode, "decode", ""))
        for op in ops:
            for point, stage, why in stages:
                for cell in DERIVE[op](model, point, dtype):
                    yield _draft(op, cell, anchor, model=model.name, stage=stage, why=why)


def _draft(op: str, cell: Cell, anchor: Anchor, *, model: str, stage: Stage, why: str = "") -> Draft:
    source = Source(
        kind="atom_workload",
        input_len=anchor.input_len,
        output_len=anchor.output_len,
        concurrency=anchor.concurrency,
    )
    return Draft.of_cell(cell, op_type=op, model=model, stage=stage, source=source, why=why)
