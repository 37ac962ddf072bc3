"""One attempt at a shape with the processes at hand: prepare and check the arms, then hold the GPU and visit them.

Only what is timed has the GPU alone, and first calls of what is under test: who hangs the GPU or takes it down must be
known, and a kernel that tunes itself must not choose by what other lanes do. First calls of baselines that do not tune
themselves, and all else, are made beside other lanes' like work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gate.replay.blocks import BASE, CONTROL, HEAD, Arm
from gate.replay.chips import Chip
from gate.replay.integrity import MEMORY_CODES
from gate.replay.job import Job, Settings
from gate.replay.looks import HEAVY_SHARE
from gate.replay.measuring import Measuring
from gate.replay.talk import Talk
from gate.replay.timer import RING_BYTES, SHARED_BYTES, plan_ring, room

Reply = dict[str, Any]


# Processes take turns on a GPU: eight lanes at a time on an H200 prepared hardly more shapes a second than one.
MOST_PREPARING = 2
# What a row says where integrity check 4, and the second half of check 3, had nothing to compare with.
UNPROFILED = "the profiler saw no kernel: the graph was not held against an eager call"


class Spoiled(Exception):
    """What the arms found in their shared ring cannot be trusted; each must have one of its own."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """See the module. `share` allows head and base one ring at the same place of the device's memory."""

    settings: Settings
    job: Job
    talk: Talk
    measuring: Measuring
    share: bool
    first_alone: list[Arm] = field(default_factory=list)
    pilots: dict[Arm, Reply] = field(default_factory=dict)
    twins: tuple[Arm, ...] = ()

    def run(self) -> None:
        """Raises SideLost when a worker dies, Spoiled when the arms must not share memory."""
        token = self.talk.token
        self.talk.crew.start(dict.fromkeys(arm.side for arm in self.talk.alive()), turn=token.share)
        self.talk.drop()
        self._open()
        if any(arm in self.first_alone for arm in self.talk.alive()):
            with token.hold():
                for arm in self.first_alone:
                    self._pilot(arm)
        with token.share(MOST_PREPARING):
            self._beside([], self._pilot)
            self._prepare()
        with token.hold():
            for arm in self.talk.alive():
                self._profile(arm)
            if self.settings.timing:
                self.measuring.run(heavy=self._heavy())
                for arm in self.talk.alive():
                    self._finish(arm)
        with token.share(MOST_PREPARING):
            if self.settings.timing:
                self._beside(self.twins, lambda arm: self._checked(arm, {"do": "recheck"}))
            self.talk.drop()

    def _open(self) -> None:
        case = self.job.case
        common = {"do": "open", "case": {**asdict(case)}, "op": self.job.op, "seed": self._value_seed()}
        entrypoints = {target.arm: target.entrypoint for target in self.job.targets}
        messages = {arm: {**common, "entrypoint": entrypoints[arm]} for arm in self.talk.alive()}
        for arm, reply in self.talk.ask_together(messages).items():
            result = self.talk.results[arm]
            result.detail, result.commit = reply["detail"], reply["commit"]
            result.allocation, result.layout, result.jit = reply["allocation"], reply["layout"], reply["jit"]
            if reply["tunes"] or arm.side != CONTROL:
                self.first_alone.append(arm)

    def _pilot(self, arm: Arm) -> None:
        """The first call, unless it has been made, and what the ring is planned by."""
        if self.talk.results[arm].alive and arm not in self.pilots:
            reply = self.talk.ask(arm, {"do": "pilot", "label": self._label(arm, "pilot")})
            if reply is not None:
                self.pilots[arm] = reply

    def _beside(self, first: Sequence[Arm], work: Callable[[Arm], Any]) -> None:
        """`work` for every arm: the sides at the same time, those of `first` after each other."""
        alone = [arm for arm in self.talk.alive() if arm not in first]
        by_side = [[arm for arm in alone if arm.side == side] for side in dict.fromkeys(arm.side for arm in alone)]
        together = [arm for arm in first if self.talk.results[arm].alive]
        self.talk.side_by_side(filter(None, [together, *by_side]), work)

    def _label(self, arm: Arm, place: str) -> str:
        return f"{self.job.case.shape_id}:{arm}:{place}"

    def _value_seed(self) -> int:
        """The seed of the input values: the same for all arms of a shape, unknown before the run."""
        text = f"{self.settings.secret}:{self.job.case.shape_id}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")

    def _prepare(self) -> None:
        """Rings and graphs, and the checks on what the graphs write; the arms side by side, twins after each other."""
        self.twins = self._sharing()
        plans = self._plans()
        digests: dict[Arm, Any] = {}
        right: Reply | None = None

        def one(arm: Arm) -> None:
            nonlocal right
            twin = arm in self.twins
            self._build(arm, plans[arm], digests)
            if self.talk.results[arm].alive:
                self._checked(arm, {"do": "capture"})
            if self.talk.results[arm].alive:
                reply = self._checked(arm, {"do": "check", "twin": twin, "like": right if twin else None})
                right = reply["right"] if twin and reply is not None else right

        self._beside(self.twins, one)
        if len({tuple(digests[arm]) for arm in self.twins if arm in digests}) > 1:
            raise Spoiled("head and base fill their inputs differently")

    def _build(self, arm: Arm, plan: Reply, digests: dict[Arm, Any]) -> None:
        result, shared = self.talk.results[arm], arm in self.twins
        result.planned(plan)
        result.shared = shared
        reply = self.talk.ask(arm, {"do": "build", "plan": plan, "shared": shared})
        if reply is None:
            return
        if reply["no_room"] is not None:
            raise Spoiled(reply["no_room"])
        digests[arm] = reply["inputs"]
        result.detail = "; ".join(filter(None, (result.detail, reply["chosen"])))

    def _checked(self, arm: Arm, message: Reply) -> Reply | None:
        reply = self.talk.ask(arm, message)
        if reply is not None:
            self.talk.results[arm].max_abs = reply.get("max_abs", self.talk.results[arm].max_abs)
            self._take_findings(arm, reply)
        return reply

    def _sharing(self) -> tuple[Arm, ...]:
        """Head and base of one provider, where they may share a ring and have the memory to do so."""
        twins = tuple(arm for arm in self.talk.alive() if arm.side in (HEAD, BASE))
        pair = {arm.side for arm in twins} == {HEAD, BASE} and len(twins) == 2
        if not (self.share and self.settings.timing and pair and len({arm.provider for arm in twins}) == 1):
            return ()
        if self.talk.crew.share(arm.side for arm in twins):
            return twins
        note = own_memory(str(self.talk.crew.memory.refusal))
        for arm in twins:
            if note not in self.talk.results[arm].notes:
                self.talk.results[arm].notes.append(note)
        return ()

    def _plans(self) -> dict[Arm, Reply]:
        """The ring of each arm; head and base of one provider share theirs, made for the quicker of the two."""
        plans: dict[Arm, Reply] = {}
        for arm in self.pilots:
            alike = [reply for other, reply in self.pilots.items() if other.provider == arm.provider]
            chip = Chip(**self.talk.crew.chips[arm.side])
            twin = arm in self.twins
            alone = arm.side != CONTROL and not twin
            shared = self.talk.crew.memory.size if twin else SHARED_BYTES
            plans[arm] = asdict(
                plan_ring(
                    footprint_bytes=max(int(reply["footprint_bytes"]) for reply in alike),
                    estimate_us=min(reply["estimate_us"] for reply in alike),
                    chip=chip,
                    free_bytes=None if twin else min(int(reply["free_bytes"]) for reply in alike),
                    budget_us=self.settings.budget_us,
                    most_bytes=RING_BYTES if alone else room(chip, shared),
                )
            )
        return plans

    def _heavy(self) -> bool:
        """Whether some arm may load the whole GPU; where the chip's peak is not known, it may."""
        shares = [reply["peak_share"] for reply in self.pilots.values()]
        return any(share is None or share >= HEAVY_SHARE for share in shares)

    def _profile(self, arm: Arm) -> None:
        reply = self.talk.ask(arm, {"do": "profile"})
        if reply is not None:
            result = self.talk.results[arm]
            result.profiled_us = reply["profiled_us"]
            if result.profiled_us is None and UNPROFILED not in result.notes:
                result.notes.append(UNPROFILED)
            self._take_findings(arm, reply)

    def _take_findings(self, arm: Arm, reply: Reply) -> None:
        if reply["findings"]:
            first = reply["findings"][0]
            if arm in self.twins and first["code"] in MEMORY_CODES:
                raise Spoiled(f"{first['code']} in the ring that they shared")
            self.talk.results[arm].fail(status=first["status"], reason=first["text"], code=first["code"])

    def _finish(self, arm: Arm) -> None:
        result = self.talk.results[arm]
        message = {
            "do": "finish",
            "times_us": [time_us for block in result.visits for time_us in block],
            "method": self.settings.method,
            "label": self._label(arm, f"finish:{self.measuring.look}"),
        }
        reply = self.talk.ask(arm, message)
        if reply is not None:
            result.profiled_us, result.eager_us = reply["profiled_us"], reply["eager_us"]
            result.bytes_moved, result.flops = reply["bytes_moved"], reply["flops"]
            self._take_findings(arm, reply)


def own_memory(reason: str) -> str:
    """What a row says whose arms could not share a ring."""
    return f"head and base lie in memory of their own: {reason}"
