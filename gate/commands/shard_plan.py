"""A plan of shards on disk: made from the shapes of a run and their costs, read back, and held against the ledgers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from gate import store
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.text import counted
from gate.replay import shards
from gate.replay.job import Job

PLAN_FILE = "plan.json"
SCHEMA = "gate.shard_plan/1"
_SHARD = re.compile(r"([1-9]\d{0,2})/([1-9]\d{0,2})")
MOST_RUNNERS = 256


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One runner's part: `shard` is K/N; its shapes in the ledgers' order; the minutes it should take."""

    shard: str
    shapes: tuple[str, ...]
    minutes: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a run measures of its shapes: the candidate of each op, base beside head or not, only these baselines
    (empty: all), and ops from where (empty: from this package)."""

    candidates: dict[str, str]
    both: bool
    providers: tuple[str, ...]
    op_from: str


class ShardPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Every shape of a run in exactly one shard; `ledgers` are the hashes of the files it was made from.

    `both` says whether base is measured too; `providers` and `op_from` bind the runs where the plan was told them.
    `estimates` are the minutes of 1, 2, 4 and 8 runners; `measured` counts the shapes whose cost an earlier run showed.
    """

    schema: str = SCHEMA
    runners: int
    ledgers: dict[str, str]
    candidates: dict[str, str]
    both: bool
    providers: tuple[str, ...]
    op_from: str
    shards: tuple[Shard, ...]
    estimates: dict[str, float]
    measured: int

    @property
    def matrix(self) -> dict[str, list[dict[str, str]]]:
        """The matrix of a GitHub Actions job."""
        used = [one for one in self.shards if one.shapes]
        return {"include": [{"shard": one.shard, "name": one.shard.replace("/", "-of-")} for one in used]}


def make(
    jobs: Sequence[Job],
    *,
    runners: int,
    ledgers: Mapping[str, str],
    measured: Measured,
    costs: shards.Costs | None = None,
) -> ShardPlan:
    """A plan for these jobs; without `costs` they are the model's."""
    found = shards.costs_of(jobs, {}) if costs is None else costs
    parts = shards.partition(found, runners)
    return ShardPlan(
        runners=runners,
        ledgers=dict(sorted(ledgers.items())),
        candidates=dict(sorted(measured.candidates.items())),
        both=measured.both,
        providers=measured.providers,
        op_from=measured.op_from,
        shards=tuple(
            Shard(shard=f"{number}/{runners}", shapes=tuple(part), minutes=round(shards.minutes(found, part), 2))
            for number, part in enumerate(parts, start=1)
        ),
        estimates={str(n): round(value, 2) for n, value in shards.estimates(found).items()},
        measured=found.measured,
    )


def parse(text: str) -> tuple[int, int]:
    """K and N of `K/N`. Raises WrongUsage."""
    match = _SHARD.fullmatch(text)
    if match is None or not int(match[1]) <= int(match[2]) <= MOST_RUNNERS:
        raise WrongUsage(Problem(what=f"--shard {text} is not K/N with K from 1 to N", file="", fix="such as 2/4"))
    return int(match[1]), int(match[2])


def read(path: Path) -> ShardPlan:
    """The plan in `path`. Raises UnusableInput if it is not one."""
    return store.read_record(path, ShardPlan, what="a plan of shards", fix="make it with gate shard plan")


def shard_of(plan: ShardPlan, text: str, *, ledgers: Mapping[str, str], file: str) -> Shard:
    """The shard K/N of a plan. Raises UnusableInput for a plan of other ledgers, WrongUsage for another N."""
    number, runners = parse(text)
    if runners != plan.runners:
        raise WrongUsage(Problem(what=f"--shard {text}: the plan is for {counted(plan.runners, 'runner')}", file=file))
    edited = sorted(name for name in {*plan.ledgers, *ledgers} if plan.ledgers.get(name) != ledgers.get(name))
    if edited:
        what = f"the plan was made from another {edited[0]}"
        raise UnusableInput(Problem(what=what, file=file, fix="make the plan again from these ledgers"))
    return plan.shards[number - 1]


def unlike(plan: ShardPlan, run: Measured) -> list[str]:
    """What a run measures otherwise than the plan it is a shard of, in words; `candidates` are of the shard's ops."""
    told: list[str] = []
    others = [op for op, name in sorted(run.candidates.items()) if name != plan.candidates.get(op)]
    if others or not run.candidates:
        op = others[0] if others else min(plan.candidates, default="")
        more = f" and {counted(len(others) - 1, 'other op')}" if others[1:] else ""
        names = run.candidates.get(op, "none"), plan.candidates.get(op, "none")
        told.append(f"the candidate of {op}{more} is {names[0]}, by the plan {names[1]}")
    if run.both != plan.both:
        told.append(
            "base is not measured, by the plan it is" if plan.both else "base is measured, by the plan it is not"
        )
    if plan.providers and set(run.providers) != set(plan.providers):
        told.append(f"--providers is {','.join(run.providers) or 'not given'}, by the plan {','.join(plan.providers)}")
    if plan.op_from and run.op_from != plan.op_from:
        told.append(f"--op-from is {run.op_from or 'not given'}, by the plan {plan.op_from}")
    return told
