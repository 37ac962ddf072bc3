"""A plan of shards on disk: made from the shapes of a run and their costs, read back, and held against the ledgers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gate import store
from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.model.text import counted
from gate.replay import shards
from gate.replay.job import Job
from gate.replay.journal_lines import JOURNAL, read_lines

PLAN_FILE = "plan.json"
SCHEMA = "gate.shard_plan/1"
_SHARD = re.compile(r"([1-9]\d{0,2})/([1-9]\d{0,2})")
MOST_RUNNERS = 256


Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a line of a journal says of costs: the seconds of each part of the work, and the arms they were for."""

    shape_id: str
    spent_s: dict[str, Seconds] = {}
    arms: dict[str, Any] = {}


class Wall(msgspec.Struct, frozen=True, kw_only=True):
    """What a manifest says of costs."""

    wall_s: Seconds


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
    costs: Sequence[Path] = (),
) -> ShardPlan:
    """A plan for these jobs; `costs` are earlier runs."""
    found = costs_from(jobs, costs)
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


def costs_from(jobs: Sequence[Job], places: Sequence[Path]) -> shards.Costs:
    """What each job costs by the journals under `places`. Raises UnusableInput for a place without one."""
    recorded: dict[str, float] = {}
    wall_s, spent_s = 0.0, 0.0
    for place in places:
        journals = [place] if place.is_file() else sorted({*place.glob(JOURNAL), *place.glob(f"**/{JOURNAL}")})
        if not journals:
            raise UnusableInput(Problem(what=f"no {JOURNAL} in it", file=str(place), fix="name what a run left"))
        spent = {path: spent_in(path) for path in journals}
        if not any(spent.values()):
            fix = "name a run that measured something, or leave --costs out"
            raise UnusableInput(Problem(what="no finished shape in it", file=str(place), fix=fix))
        for path, lines in spent.items():
            own = shards.recorded_s(lines)
            for shape_id, seconds in own.items():
                recorded[shape_id] = recorded.get(shape_id, 0.0) + seconds
            manifest = path.with_name("manifest.json")
            if manifest.is_file():
                fix = "remove it: the costs are then those of the journal alone"
                wall_s += store.read_record(manifest, Wall, what="the manifest of a run", fix=fix).wall_s
                spent_s += sum(sum(line.get("spent_s", {}).values()) for line in lines)
    return shards.costs_of(jobs, recorded, wall_share=wall_s / spent_s if wall_s and spent_s else None)


def spent_in(path: Path) -> list[dict[str, Any]]:
    """The shapes of a journal. Raises UnusableInput for one whose seconds are none."""
    lines = [line for line in read_lines(path) if "shape_id" in line]
    for line in lines:
        try:
            msgspec.convert(line, Spent)
        except msgspec.ValidationError as error:
            what = f"the seconds of {line['shape_id']} are none: {error}"
            raise UnusableInput(Problem(what=what, file=str(path), fix="name another run with --costs")) from None
    return lines


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
