"""How commands reach the arms of a shape, and what their replies do to the arms' results."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from gate.replay.blocks import Arm
from gate.replay.crew import ContextLost, Crew
from gate.replay.job import ArmResult
from gate.replay.looks import Token

Reply = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Talk:
    """See the module. `results` and `spent_s` (seconds by command) are the shape's own, filled in place."""

    crew: Crew
    token: Token
    results: dict[Arm, ArmResult]
    spent_s: defaultdict[str, float]

    def alive(self) -> list[Arm]:
        """The arms that can still be measured."""
        return [arm for arm, result in self.results.items() if result.alive]

    def ask(self, arm: Arm, message: Reply) -> Reply | None:
        """One command for one arm: its reply, or None when the arm failed by it. Raises SideLost."""
        reply = self._timed(arm.side, {**message, "arm": str(arm)})
        gpu_us = float(reply.get("gpu_us", 0.0))
        self.results[arm].gpu_us += gpu_us
        self.token.gpu_us += gpu_us
        return reply if self._judged(arm, reply) else None

    def ask_together(self, messages: dict[Arm, Reply]) -> dict[Arm, Reply]:
        """Commands that need no GPU, at the same time: the replies of the arms that did not fail by them."""
        started = time.perf_counter()
        replies = self.crew.ask_together([(arm.side, {**each, "arm": str(arm)}) for arm, each in messages.items()])
        self.spent_s[next((each["do"] for each in messages.values()), "")] += time.perf_counter() - started
        return {arm: reply for arm, reply in zip(messages, replies, strict=True) if self._judged(arm, reply)}

    def drop(self) -> None:
        """Every worker forgets its arms and frees their memory."""
        for side in list(self.crew.links):
            self._timed(side, {"do": "drop"})

    def _timed(self, side: str, message: Reply) -> Reply:
        started = time.perf_counter()
        reply = self.crew.ask(side, message)
        self.spent_s[message["do"]] += time.perf_counter() - started
        return reply

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
