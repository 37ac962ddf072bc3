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


class ShardPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Every shape of a run in exactly one shard; `ledgers` are the hashes of the files it was made from.

    `estimates` are the minutes of 1, 2, 4 and 8 runners; `measured` counts the shapes whose cost an earlier run showed.
    """

    schema: str = SCHEMA
    runners: int
    ledgers: dict[str, str]
    candidates: dict[str, str]
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
    candidates: Mapping[str, str],
    costs: shards.Costs | None = None,
) -> ShardPlan:
    """A plan for these jobs; without `costs` they are the model's."""
    found = shards.costs_of(jobs, {}) if costs is None else costs
    parts = shards.partition(found, runners)
    return ShardPlan(
        runners=runners,
        ledgers=dict(sorted(ledgers.items())),
        candidates=dict(sorted(candidates.items())),
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
