"""What a timed run keeps of itself: since which day it runs, and which part of what it measured, and how."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.commands.run import STATE_FILE
from gate.commands.shard_plan import PLAN_FILE
from gate.commands.timed_session import REPLAY_FOLDER, MeasuredRun, unmeasured
from gate.commands.timed_tape import METHOD
from gate.commands.timed_work import Work
from gate.model.outcome import Outcome
from gate.model.policy import Policy
from gate.model.problem import Problem, UnusableInput
from gate.replay.blocks import HEAD

PART_FILE = "part.json"
SCHEMA = "gate.part/1"
MACHINE_FIELDS = ("gpu", "arch", "rocm_version", "driver_version", "torch_version", "triton_version")


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What a run keeps from its first call: the day that waivers are held against."""

    day: date


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One run's own account. `shard` is K/N, 1/1 for a whole run; `engine` what must be equal to be put together.

    `machine` holds, per field of the stack, every value that occurs in head's rows; `problems` why it ended early.
    """

    schema: str = SCHEMA
    shard: str
    shapes: tuple[str, ...]
    missing: tuple[str, ...]
    ledgers: dict[str, str]
    candidates: dict[str, str]
    commits: dict[str, str | None]
    machine: dict[str, tuple[str, ...]]
    engine: dict[str, Any]
    scope: str
    finished: bool
    problems: tuple[str, ...] = ()


def begin(out: Path, *, resume: bool) -> date:
    """The day that waivers are held against: that of the first call, also where a later one goes on.

    Raises UnusableInput where `out` holds a run and this one does not say that it goes on with it.
    """
    path = out / STATE_FILE
    if path.exists() or (out / REPLAY_FOLDER).exists():
        if not resume:
            fix = "give --resume to go on with it, or another --out"
            raise UnusableInput(Problem(what="already holds a run", file=str(out), fix=fix))
        if path.exists():
            fix = "remove it, then --resume: waivers are then held against today"
            return store.read_record(path, State, what="the state of a run", fix=fix).day
    day = datetime.now(UTC).date()
    store.write_json(path, State(day=day))
    return day


def write(out: Path, work: Work, found: MeasuredRun, timed: Mapping[str, Any], *, policy: Policy) -> None:
    """part.json of a run that measured."""
    missing = unmeasured(work, found.rows)
    if work.plan is not None:
        store.write_json(out / PLAN_FILE, work.plan)
    store.write_json(
        out / PART_FILE,
        Part(
            shard=timed["shard"] or "1/1",
            shapes=tuple(shape.shape_id for shape in work.inputs.shapes),
            missing=tuple(missing),
            ledgers=dict(sorted(work.inputs.hashes.items())),
            candidates={op: matrix.candidate_provider for op, matrix in sorted(work.inputs.matrices.items())},
            commits={side: spec.commit for side, spec in sorted(work.arms.items())},
            machine=machine_of(found.rows[HEAD]),
            engine=engine_of(work, timed, policy=policy),
            scope=work.scope,
            finished=not missing and not found.broken,
            problems=tuple(problem.what for problem in found.broken),
        ),
    )


def engine_of(work: Work, timed: Mapping[str, Any], *, policy: Policy) -> dict[str, Any]:
    """The settings that decide what a time means."""
    return {
        "method": METHOD,
        "looks": list(policy.screen.looks),
        "confirm": [list(policy.confirm.processes), policy.confirm.process_blocks],
        "budget_us": timed["budget_us"],
        "both": work.both,
        "providers": list(work.selection.providers),
        "simulate": timed["simulate"] is not None,
    }


def machine_of(rows: list[Outcome]) -> dict[str, tuple[str, ...]]:
    """Every value of the stack's fields."""
    found = {name: {str(value) for row in rows if (value := getattr(row, name))} for name in MACHINE_FIELDS}
    return {name: tuple(sorted(values)) for name, values in found.items()}


def read(folder: Path) -> Part:
    """The account in `folder`. Raises UnusableInput if there is none, or it is not one."""
    return store.read_record(folder / PART_FILE, Part, what="the account of a run", fix="write it with gate run")
