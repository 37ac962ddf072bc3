"""How commands reach the arms of a shape, and what their replies do to the arms' results."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gate.replay.blocks import Arm
from gate.replay.crew import ContextLost, Crew, SideLost
from gate.replay.job import ArmResult
from gate.replay.token import Token

Reply = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Talk:
    """See the module. `results` and `spent_s` are the shape's own, filled in place; `spent_s` adds up the seconds of
    each command over all arms, which may have worked at the same time; `trim`, a part of some, is apart."""

    crew: Crew
    token: Token
    results: dict[Arm, ArmResult]
    spent_s: defaultdict[str, float]
    _adding: threading.Lock = field(default_factory=threading.Lock)

    def alive(self) -> list[Arm]:
        """The arms that can still be measured."""
        return [arm for arm, result in self.results.items() if result.alive]

    def ask(self, arm: Arm, message: Reply) -> Reply | None:
        """One command for one arm: its reply, or None when the arm failed by it. Raises SideLost."""
        reply = self._timed(arm.side, {**message, "arm": str(arm)})
        gpu_us = float(reply.get("gpu_us", 0.0))
        self.results[arm].gpu_us += gpu_us
        self.token.spent(gpu_us)
        return reply if self._judged(arm, reply) else None

    def ask_together(self, messages: dict[Arm, Reply]) -> dict[Arm, Reply]:
        """Commands for several arms at the same time: the replies of those that did not fail by them. Raises
        SideLost."""
        replies = self.crew.ask_together([(arm.side, {**each, "arm": str(arm)}) for arm, each in messages.items()])
        good: dict[Arm, Reply] = {}
        lost: dict[str, SideLost] = {}
        for (arm, message), reply in zip(messages.items(), replies, strict=True):
            self._add(message["do"], float(reply.get("wall_s", 0.0)))
            try:
                # What a process answers that an arm before has cost the GPU is no fault of the arm.
                if arm.side not in lost and self._judged(arm, reply):
                    good[arm] = reply
            except ContextLost as error:
                lost[arm.side] = error
        if lost:
            raise SideLost.together(list(lost.values()))
        return good

    def side_by_side(self, groups: Iterable[Sequence[Arm]], work: Callable[[Arm], Any]) -> None:
        """`work` for every arm: the groups at the same time, the arms of a group one after another.

        No two groups may have arms of one side. Raises what `work` raises, once all groups are at their end; a worker
        that died before anything else.
        """

        found: dict[int, Exception] = {}

        def each(place: int, group: Sequence[Arm]) -> None:
            try:
                for arm in group:
                    work(arm)
            except Exception as error:  # noqa: BLE001  raised below
                found[place] = error

        # A pool's threads would keep an interrupted process until their workers answer.
        threads = [threading.Thread(target=each, args=part, daemon=True) for part in enumerate(groups)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        errors = [found[place] for place in sorted(found)]
        lost = [error for error in errors if isinstance(error, SideLost)]
        if lost:
            raise SideLost.together(lost)
        if errors:
            raise errors[0]

    def drop(self) -> None:
        """Every worker forgets its arms and frees their memory."""
        for side in list(self.crew.links):
            self._timed(side, {"do": "drop"})

    def _timed(self, side: str, message: Reply) -> Reply:
        started = time.perf_counter()
        reply = self.crew.ask(side, message)
        trim_s = float(reply.get("trim_s", 0.0))
        self._add(message["do"], time.perf_counter() - started - trim_s)
        self._add("trim", trim_s)
        return reply

    def _add(self, command: str, seconds: float) -> None:
        with self._adding:
            self.spent_s[command] += seconds

    def _judged(self, arm: Arm, reply: Reply) -> bool:
        if reply["status"] == "ok":
            return True
        result = self.results[arm]
        result.fail(status=reply["status"], reason=reply["reason"], code=reply.get("code"))
        result.capture_error = reply.get("capture_error")
        if reply.get("fatal"):
            # The process's GPU context is lost; whoever shares it starts afresh.
            raise ContextLost(arm.side)
        return False
