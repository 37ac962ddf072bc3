"""What a timed run says of itself: which part of what it measured, and how."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.commands.shard_plan import PLAN_FILE, Measured
from gate.commands.timed_session import MeasuredRun, unmeasured
from gate.commands.timed_tape import METHOD
from gate.commands.timed_work import Work
from gate.model.outcome import Outcome
from gate.model.policy import Policy
from gate.model.waiver import Waiver
from gate.replay.blocks import HEAD
from gate.replay.run_folder import PART_FILE as PART_FILE

SCHEMA = "gate.part/1"
JudgedBy = tuple[Policy, Sequence[Waiver]]
MACHINE_FIELDS = ("gpu", "arch", "rocm_version", "driver_version", "torch_version", "triton_version")


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that decide what a time means and which shapes are measured again.

    `env` are the variables that each arm sets; `policy` and `waivers` tell by a hash what the run was judged by.
    """

    method: str
    looks: tuple[int, ...]
    confirm: tuple[tuple[int, ...], int]
    budget_us: float
    drift: float
    both: bool
    providers: tuple[str, ...]
    op_from: str
    env: dict[str, tuple[str, ...]]
    simulate: bool
    policy: str
    waivers: str


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
    engine: Engine
    scope: str
    finished: bool
    problems: tuple[str, ...] = ()

    @property
    def measured(self) -> Measured:
        """What must be as the plan says."""
        engine = self.engine
        return Measured(
            candidates=self.candidates, both=engine.both, providers=engine.providers, op_from=engine.op_from
        )


def write(out: Path, work: Work, found: MeasuredRun, timed: Mapping[str, Any], *, judged_by: JudgedBy) -> None:
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
            candidates=work.measured.candidates,
            commits={side: spec.commit for side, spec in sorted(work.arms.items())},
            machine=machine_of(found.rows[HEAD]),
            engine=engine_of(work, timed, judged_by=judged_by),
            scope=work.scope,
            finished=not missing and not found.broken,
            problems=tuple(problem.what for problem in found.broken),
        ),
    )


def engine_of(work: Work, timed: Mapping[str, Any], *, judged_by: JudgedBy) -> Engine:
    """The settings of a run."""
    policy, waivers = judged_by
    measured = work.measured
    return Engine(
        method=METHOD,
        looks=policy.screen.looks,
        confirm=(policy.confirm.processes, policy.confirm.process_blocks),
        budget_us=timed["budget_us"],
        drift=timed["drift"],
        both=measured.both,
        providers=measured.providers,
        op_from=measured.op_from,
        env={side: tuple(sorted(map("=".join, spec.env))) for side, spec in sorted(work.arms.items())},
        simulate=timed["simulate"] is not None,
        policy=digest(policy),
        waivers=digest(waivers),
    )


def digest(judged_by: Policy | Sequence[Waiver]) -> str:
    """The first 12 digits of the SHA-256 of a policy, or of waivers in whatever order, as values."""
    one = judged_by if isinstance(judged_by, Policy) else sorted(map(msgspec.json.encode, judged_by))
    return hashlib.sha256(msgspec.json.encode(one, order="deterministic")).hexdigest()[:12]


def machine_of(rows: list[Outcome]) -> dict[str, tuple[str, ...]]:
    """Every value of the stack's fields."""
    found = {name: {str(value) for row in rows if (value := getattr(row, name))} for name in MACHINE_FIELDS}
    return {name: tuple(sorted(values)) for name, values in found.items()}


def read(folder: Path) -> Part:
    """The account in `folder`. Raises UnusableInput if there is none, or it is not one."""
    return store.read_record(folder / PART_FILE, Part, what="the account of a run", fix="write it with gate run")
