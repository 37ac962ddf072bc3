"""The timed part of an attempt: warm the arms, visit them block by block, repeat what the machine disturbed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gate.replay.blocks import BASE, CONTROL, HEAD, Arm, schedule
from gate.replay.job import Job, Settings
from gate.replay.looks import Warming, throttled, unsettled
from gate.replay.sensors import Reading
from gate.replay.talk import Talk
from gate.replay.timer import REPLAYS

Reply = dict[str, Any]
MAX_BLOCK_REPEATS = 2


@dataclass(slots=True, kw_only=True)
class Measuring:
    """See the module. One look: `blocks` in one process of each side. `raw` keeps a record of every visit."""

    settings: Settings
    job: Job
    talk: Talk
    sensor: Callable[[], Reading]
    raw: list[Reply]
    look: int
    blocks: range
    _last: Reading | None = None
    _visited: Arm | None = None
    _loaded: bool = False

    def run(self, *, heavy: bool) -> None:
        """Fills the results' visits; to be called with the GPU held. `heavy` as for Warming. Raises SideLost."""
        self._warm(Warming(heavy=heavy))
        found = {block: self._repeated(block, 0) for block in self.blocks}
        for block in unsettled(found):
            found[block] = self._repeated(block, 1 + MAX_BLOCK_REPEATS)
        for visits in found.values():
            for arm in self.talk.alive():
                if arm in visits:
                    self.talk.results[arm].visits.append(visits[arm])
                    self.talk.results[arm].processes.append(self.look)

    def _warm(self, warming: Warming) -> None:
        """Visits that count for nothing, until clocks and power have settled under this shape's own load."""
        while not warming.settled:
            visits = {arm: self._visit(arm, "warm", replays=1) for arm in self.talk.alive()}
            warming.saw({arm: (reply["t_us"], reply["gpu_us"]) for arm, reply in visits.items() if reply is not None})
        self._loaded = warming.loaded

    def _settle(self, arm: Arm, block: int) -> None:
        """A visit that counts for nothing where clocks may still be those of another kernel: at the power limit an H200
        ran the first of four visits behind the controls 8% slower or faster than the others."""
        behind_control = self._visited is not None and self._visited.side == CONTROL
        if self._loaded and behind_control and arm.side != CONTROL:
            self._visit(arm, f"{block}:settle", replays=1)

    def _visit(self, arm: Arm, place: str, replays: int = REPLAYS) -> Reply | None:
        label = f"{self.job.case.shape_id}:{arm}:{place}"
        self._visited = arm
        return self.talk.ask(arm, {"do": "visit", "label": label, "method": self.settings.method, "replays": replays})

    def _repeated(self, block: int, first: int) -> dict[Arm, list[float]]:
        """A block, again while the GPU slows itself down; the tries are numbered from `first` on."""
        for repeat in range(first, first + 1 + MAX_BLOCK_REPEATS):
            # What the sensors said after a block that went well holds before the next one.
            before = self._last or self.sensor()
            visits = self._block(block, repeat, before)
            after = self.sensor()
            moved = throttled(before, after)
            self._last = after if moved is None else None
            if moved is None:
                return visits
        for arm in visits:
            self.talk.results[arm].notes.append(f"block {block}: {moved} in all {1 + MAX_BLOCK_REPEATS} tries")
        return visits

    def _block(self, block: int, repeat: int, before: Reading) -> dict[Arm, list[float]]:
        alive = self.talk.alive()
        sides = {side: [arm for arm in alive if arm.side == side] for side in (HEAD, BASE, CONTROL)}
        stops = schedule(
            seed=self.settings.seed,
            shape_id=self.job.case.shape_id,
            head=sides[HEAD],
            base=sides[BASE],
            controls=sides[CONTROL],
            blocks=range(block, block + 1),
        )
        visits: dict[Arm, list[float]] = {arm: [] for arm in alive}
        for stop in stops:
            if self.talk.results[stop.arm].alive:
                self._settle(stop.arm, block)
            reply = self._visit(stop.arm, f"{block}:{stop.order}") if self.talk.results[stop.arm].alive else None
            if reply is None:
                continue
            visits[stop.arm].append(reply["t_us"])
            place = {"look": self.look, "block": block, "order": stop.order, "repeat": repeat, "arm": str(stop.arm)}
            self.raw.append({**place, **before.as_dict(), "at": time.time(), **_kept(reply)})
        return {arm: times for arm, times in visits.items() if self.talk.results[arm].alive}


def _kept(reply: Reply) -> Reply:
    return {name: reply[name] for name in ("t_us", "full_us", "single_us", "gpu_us")}
