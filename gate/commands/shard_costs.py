"""What shapes cost by the journals of earlier runs, and of which machine and how a plan goes by it, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gate import store
from gate.model.problem import Problem, UnusableInput
from gate.model.text import counted, one_line
from gate.replay import shards
from gate.replay.job import Job
from gate.replay.journal_lines import JOURNAL, read_lines

Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
SIMULATED = "a simulated GPU"
UNNAMED = "an unnamed GPU"


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a line of a journal says of costs: the seconds of each part of the work, and the arms they were for."""

    shape_id: str
    spent_s: dict[str, Seconds] = {}
    arms: dict[str, Any] = {}


class Wall(msgspec.Struct, frozen=True, kw_only=True):
    """What a manifest says of costs."""

    wall_s: Seconds


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of each job; `machines` are the GPUs that the runs were on, `scale` what the model's seconds were
    multiplied by for shapes without a measured cost, `own_wall` whether the wall time's share is of the runs."""

    costs: shards.Costs
    machines: tuple[str, ...] = ()
    scale: float | None = None
    own_wall: bool = False

    def told(self) -> str:
        """How many shapes have a measured cost, of which machine, and what became of the model's costs."""
        total, measured = len(self.costs.seconds), self.costs.measured
        shapes = counted(total, "shape")
        if not self.machines:
            return f"{shapes}, costs by the model alone"
        of = f"from {', '.join(self.machines)}"
        if not measured:
            return f"{shapes}, 0 of them among the costs {of}: costs by the model alone, as without --costs"
        parts = [f"{measured:,} of {shapes} at measured cost {of}"]
        if self.scale is not None:
            parts.append(f"the other {total - measured:,} by the model times {self.scale:.2g}")
        if self.own_wall:
            parts.append(f"wall time {self.costs.wall_share:.2g} of the summed seconds, as there")
        if SIMULATED in self.machines:
            parts.append("simulated seconds say nothing of a real run's: for one, name a run on its GPU")
        return "; ".join(parts)


def known(jobs: Sequence[Job], places: Sequence[Path]) -> Known:
    """What each job costs by the journals under `places`, of which other shapes alone change nothing.

    Raises UnusableInput for a place without a journal, or with one that cannot be used.
    """
    recorded: dict[str, float] = {}
    machines: set[str] = set()
    wall_s, spent_s = 0.0, 0.0
    for place in places:
        for path, (header, lines) in _journals(place).items():
            for shape_id, seconds in shards.recorded_s(lines).items():
                recorded[shape_id] = recorded.get(shape_id, 0.0) + seconds
            machines |= _machines(header, lines)
            manifest = path.with_name("manifest.json")
            if manifest.is_file():
                fix = "remove it: the costs are then those of the journal alone"
                wall_s += store.read_record(manifest, Wall, what="the manifest of a run", fix=fix).wall_s
                spent_s += sum(sum(line.get("spent_s", {}).values()) for line in lines)
    own = wall_s / spent_s if wall_s and spent_s else None
    found = shards.costs_of(jobs, recorded, wall_share=own)
    if not found.measured:
        return Known(costs=shards.costs_of(jobs, {}), machines=tuple(sorted(machines)))
    guessed = [job for job in jobs if not recorded.get(job.case.shape_id, 0.0) > 0]
    scale = found.seconds[guessed[0].case.shape_id] / shards.modelled_s(guessed[0]) if guessed else None
    return Known(costs=found, machines=tuple(sorted(machines)), scale=scale, own_wall=own is not None)


Lines = list[dict[str, Any]]


def _journals(place: Path) -> dict[Path, tuple[Lines, Lines]]:
    """The header and the shapes of every journal under `place`."""
    paths = [place] if place.is_file() else sorted({*place.glob(JOURNAL), *place.glob(f"**/{JOURNAL}")})
    if not paths:
        raise UnusableInput(Problem(what=f"no {JOURNAL} in it", file=str(place), fix="name what a run left"))
    found = {path: _journal(path) for path in paths}
    if not any(shapes for _, shapes in found.values()):
        fix = "name a run that measured something, or leave --costs out"
        raise UnusableInput(Problem(what="no finished shape in it", file=str(place), fix=fix))
    return found


def _journal(path: Path) -> tuple[Lines, Lines]:
    """What a journal says before its shapes, and its shapes. Raises UnusableInput for one whose seconds are none."""
    header: Lines = []
    shapes: Lines = []
    for line in read_lines(path):
        (shapes if "shape_id" in line else header).append(line)
    for line in shapes:
        try:
            msgspec.convert(line, Spent)
        except msgspec.ValidationError as error:
            what = f"the seconds of {line['shape_id']} are none: {error}"
            raise UnusableInput(Problem(what=what, file=str(path), fix="name another run with --costs")) from None
    return header, shapes


def _machines(header: Lines, lines: Lines) -> set[str]:
    """The GPUs that a journal says it was measured on."""
    made = header[0].get("fingerprint") if header else None
    if isinstance(made, dict) and made.get("simulate") is not None:
        return {SIMULATED}
    return {_gpu(each) for line in lines for each in _sides(line.get("environments"))} or (
        {UNNAMED} if lines else set()
    )


def _sides(environments: Any) -> Iterable[Any]:
    return environments.values() if isinstance(environments, dict) else ()


def _gpu(environment: Any) -> str:
    name = environment.get("gpu") if isinstance(environment, dict) else None
    if name == "simulated":
        return SIMULATED
    return one_line(name)[:80] if isinstance(name, str) and name else UNNAMED
