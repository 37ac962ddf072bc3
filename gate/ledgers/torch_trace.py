"""Knows the Chrome trace that torch.profiler writes with record_shapes: which operators ran on which shapes.

An operator event has category `cpu_op`, `Input Dims` (a list a tensor) and `Input type`; kernels carry the
operator's `External id`, so their times are the operator's. SGLang marks its steps with annotations such as
`step[DECODE bs=16]` and `step[EXTEND bs=1 toks=107]`; an operator inside one is of that phase.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gate.ledgers.draft import Draft
from gate.ledgers.ops.point import Cell
from gate.ledgers.torch_ops import ENCLOSED, OPERATORS, Call, Unfit
from gate.model.problem import Problem
from gate.model.shape import Source, Stage
from gate.model.text import counted

KERNEL_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
PHASES: Mapping[str, Stage] = {"DECODE": "decode", "EXTEND": "prefill", "PREFILL": "prefill", "MIXED": "mixed"}


class Traced(msgspec.Struct, frozen=True, kw_only=True):
    """The shapes of a trace, the operators that no ledger op is made of, and the events that could not be read."""

    drafts: tuple[Draft, ...]
    unmapped: dict[str, int]
    problems: tuple[Problem, ...] = ()


def read(document: Any, *, file: str, model: str, stage: Stage = "mixed") -> Traced:
    """The operators of a parsed trace as weighted shapes: occurrences are launches, `baseline_us` is kernel time.

    `stage` is that of operators outside any step annotation. An operator that calls another one of the same
    meaning counts once, as the inner one.
    """
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        return Traced(drafts=(), unmapped={}, problems=(Problem(what="no list of traceEvents", file=file),))
    events = [event for event in events if isinstance(event, dict)]
    times = _kernel_times(events)
    phases = _Phases(events)
    unmapped: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    calls: list[tuple[Mapping[str, Any], str, Cell]] = []
    for event in events:
        if event.get("cat") != "cpu_op" or not isinstance(event.get("name"), str):
            continue
        name: str = event["name"]
        try:
            if name in OPERATORS:
                calls.append((event, *OPERATORS[name](_call(event))))
            elif name not in ENCLOSED:
                unmapped[name] += 1
        except Unfit as reason:
            unmapped[f"{name}: {reason}"] += 1
        except (ValueError, TypeError, IndexError) as error:
            faults[f"{name}: {error}"] += 1
    found: dict[tuple[Any, ...], Draft] = {}
    for event, op, cell in _innermost(calls):
        time = times.get(_external(event))
        _add(found, _draft(op, cell, model=model, stage=phases.at(event, stage), time=time))
    told = (f"{counted(count, 'call')} of {what}" for what, count in sorted(faults.items()))
    problems = tuple(Problem(what=what, file=file) for what in told)
    return Traced(drafts=tuple(found.values()), unmapped=dict(unmapped), problems=problems)


def _innermost(calls: list[tuple[Mapping[str, Any], str, Cell]]) -> list[tuple[Mapping[str, Any], str, Cell]]:
    """The calls without those that enclose another one of the same op on the same thread."""
    outer: set[int] = set()
    threads: dict[Any, list[int]] = {}
    spans = [_span(event) for event, _, _ in calls]
    for index in sorted(range(len(calls)), key=lambda index: (spans[index][0], -spans[index][1])):
        event, op, _ = calls[index]
        open_calls = threads.setdefault((str(event.get("pid")), str(event.get("tid"))), [])
        while open_calls and spans[open_calls[-1]][1] < spans[index][1]:
            open_calls.pop()
        outer.update(enclosing for enclosing in open_calls if calls[enclosing][1] == op)
        open_calls.append(index)
    return [call for index, call in enumerate(calls) if index not in outer]


def _span(event: Mapping[str, Any]) -> tuple[float, float]:
    start, duration = event.get("ts"), event.get("dur")
    if not isinstance(start, (int, float)) or not isinstance(duration, (int, float)):
        return math.inf, math.inf
    return float(start), float(start + duration)


def _call(event: Mapping[str, Any]) -> Call:
    arguments = event.get("args")
    if not isinstance(arguments, dict) or not isinstance(arguments.get("Input Dims"), list):
        raise ValueError("no recorded shapes; profile with record_shapes=True")
    types = arguments.get("Input type", arguments.get("Input Types"))
    return Call(
        dims=arguments["Input Dims"],
        types=[str(kind) for kind in types] if isinstance(types, list) else [],
        values=[str(value) for value in arguments.get("Concrete Inputs") or []],
    )


def _external(event: Mapping[str, Any]) -> int | None:
    arguments = event.get("args")
    value = arguments.get("External id") if isinstance(arguments, dict) else None
    return value if isinstance(value, int) else None


def _kernel_times(events: Sequence[Mapping[str, Any]]) -> dict[int | None, float]:
    """Microseconds of kernel time by the operator's external id."""
    times: dict[int | None, float] = {}
    for event in events:
        if event.get("cat") in KERNEL_CATEGORIES:
            duration, external = event.get("dur"), _external(event)
            if isinstance(duration, (int, float)) and external is not None and duration >= 0:
                times[external] = times.get(external, 0.0) + duration
    return times


class _Phases:
    """The step annotations in order of their start, none inside another."""

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        steps = sorted(_steps(events), key=lambda step: step[0])
        self.starts = [start for start, _, _ in steps]
        self.steps = steps

    def at(self, event: Mapping[str, Any], otherwise: Stage) -> Stage:
        """The phase of the step that the event starts in."""
        start = event.get("ts")
        if not isinstance(start, (int, float)):
            return otherwise
        index = bisect.bisect_right(self.starts, start) - 1
        if index < 0 or start > self.steps[index][1]:
            return otherwise
        return self.steps[index][2]


def _steps(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, float, Stage]]:
    for event in events:
        name, start, duration = event.get("name"), event.get("ts"), event.get("dur")
        if event.get("cat") != "user_annotation" or not isinstance(name, str) or not name.startswith("step["):
            continue
        word = name[len("step[") :].replace("]", " ").split(" ", 1)[0].upper()
        if word in PHASES and isinstance(start, (int, float)) and isinstance(duration, (int, float)):
            yield float(start), float(start + duration), PHASES[word]


def _draft(op: str, cell: Cell, *, model: str, stage: Stage, time: float | None) -> Draft:
    source = Source(kind="sglang_trace", notes="torch profiler trace")
    return Draft.of_cell(cell, op_type=op, model=model, stage=stage, source=source, occurrences=1, baseline_us=time)


def _add(found: dict[tuple[Any, ...], Draft], draft: Draft) -> None:
    key = (draft.stage, *draft.physical)
    there = found.get(key)
    if there is not None:
        times = [time for time in (there.baseline_us, draft.baseline_us) if time is not None]
        draft = msgspec.structs.replace(
            there, occurrences=(there.occurrences or 0) + 1, baseline_us=sum(times) if times else None
        )
    found[key] = draft
