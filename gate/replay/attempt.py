"""One attempt at a shape with the processes at hand: prepare the arms, hold the GPU, visit them block by block."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from gate.replay.blocks import BASE, CONTROL, HEAD, Arm, schedule
from gate.replay.chips import Chip
from gate.replay.crew import ContextLost, Crew
from gate.replay.integrity import MEMORY_CODES
from gate.replay.job import ArmResult, Job, Settings
from gate.replay.looks import Token, Warming, throttled
from gate.replay.sensors import Reading
from gate.replay.timer import REPLAYS, RING_BYTES, SPREAD_FACTOR, plan_ring

Reply = dict[str, Any]
MAX_BLOCK_REPEATS = 2


class Spoiled(Exception):
    """What the arms found in their shared ring cannot be trusted; each must have one of its own."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """See the module. `results`, `raw` and `spent_s` are the shape's own, filled in place; `share` allows head and base
    one ring at the same place of the device's memory."""

    settings: Settings
    job: Job
    crew: Crew
    token: Token
    sensor: Callable[[], Reading]
    results: dict[Arm, ArmResult]
    raw: list[Reply]
    spent_s: defaultdict[str, float]
    look: int
    blocks: range
    share: bool
    twins: tuple[Arm, ...] = ()

    def run(self) -> None:
        """Raises SideLost when a worker dies, Spoiled when the arms must not share memory."""
        self.crew.start(dict.fromkeys(arm.side for arm in self._alive()), hold=self.token.hold)
        self._drop()
        self._open()
        with self.token.hold():
            self._prepare()
        with self.token.hold():
            self._check()
            if self.settings.timing:
                self._warm()
                self._measure()
            # Freeing memory waits for the device and unmaps pages, which another lane's measurement would feel.
            self._drop()

    def _alive(self) -> list[Arm]:
        return [arm for arm, result in self.results.items() if result.alive]

    def _drop(self) -> None:
        for side in list(self.crew.links):
            self._timed(side, {"do": "drop"})

    def _open(self) -> None:
        entrypoints = {target.arm: target.entrypoint for target in self.job.targets}
        case = self.job.case
        common = {"do": "open", "case": {**asdict(case)}, "op": self.job.op, "seed": self._value_seed()}
        alive = self._alive()
        messages = [(arm.side, {**common, "arm": str(arm), "entrypoint": entrypoints[arm]}) for arm in alive]
        started = time.perf_counter()
        replies = self.crew.ask_together(messages)
        self.spent_s["open"] += time.perf_counter() - started
        for arm, reply in zip(alive, replies, strict=True):
            result = self.results[arm]
            if self._judged(arm, reply):
                result.detail, result.commit = reply["detail"], reply["commit"]
                result.allocation, result.layout, result.jit = reply["allocation"], reply["layout"], reply["jit"]

    def _value_seed(self) -> int:
        """The seed of the input values: the same for all arms of a shape, unknown before the run."""
        text = f"{self.settings.secret}:{self.job.case.shape_id}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")

    def _prepare(self) -> None:
        """Rings and graphs. Making a graph allocates on the device, which a measurement on it would feel."""
        estimates = {arm: reply for arm in self._alive() if (reply := self._ask(arm, {"do": "pilot"})) is not None}
        self.twins = self._sharing()
        plans = self._plans(estimates)
        digests: dict[Arm, Any] = {}
        for arm in self._alive():
            self.results[arm].plan = plans[arm]
            shared = arm in self.twins
            self.results[arm].shared = shared
            reply = self._ask(arm, {"do": "build", "plan": plans[arm], "shared": shared})
            if reply is None:
                continue
            if reply["no_room"] is not None:
                raise Spoiled(reply["no_room"])
            digests[arm] = reply["inputs"]
            captured = self._ask(arm, {"do": "capture"})
            if captured is not None:
                self._take_findings(arm, captured)
        if len({tuple(digests[arm]) for arm in self.twins if arm in digests}) > 1:
            raise Spoiled("head and base fill their inputs differently")

    def _sharing(self) -> tuple[Arm, ...]:
        """Head and base of one provider, where they may share a ring and have the memory to do so."""
        twins = tuple(arm for arm in self._alive() if arm.side in (HEAD, BASE))
        pair = {arm.side for arm in twins} == {HEAD, BASE} and len(twins) == 2
        if not (self.share and self.settings.timing and pair and len({arm.provider for arm in twins}) == 1):
            return ()
        if self.crew.share(arm.side for arm in twins):
            return twins
        for arm in twins:
            self.results[arm].notes.append(own_memory(str(self.crew.memory.refusal)))
        return ()

    def _plans(self, estimates: dict[Arm, Reply]) -> dict[Arm, Reply]:
        """The ring of each arm; head and base of one provider share theirs, made for the quicker of the two."""
        plans: dict[Arm, Reply] = {}
        for arm in estimates:
            twins = [other for name, other in estimates.items() if name.provider == arm.provider]
            room = int(self.crew.memory.size / SPREAD_FACTOR) if arm in self.twins else RING_BYTES
            plans[arm] = asdict(
                plan_ring(
                    footprint_bytes=max(int(twin["footprint_bytes"]) for twin in twins),
                    estimate_us=min(twin["estimate_us"] for twin in twins),
                    chip=Chip(**self.crew.chips[arm.side]),
                    free_bytes=min(int(twin["free_bytes"]) for twin in twins),
                    budget_us=self.settings.budget_us,
                    ring_bytes=room,
                )
            )
        return plans

    def _check(self) -> None:
        for arm in self._alive():
            reply = self._ask(arm, {"do": "check"})
            if reply is not None:
                self.results[arm].max_abs, self.results[arm].profiled_us = reply["max_abs"], reply["profiled_us"]
                self._take_findings(arm, reply)

    def _take_findings(self, arm: Arm, reply: Reply) -> None:
        if reply["findings"]:
            first = reply["findings"][0]
            if arm in self.twins and first["code"] in MEMORY_CODES:
                raise Spoiled(f"{first['code']} in the ring that they shared")
            self.results[arm].fail(status=first["status"], reason=first["text"], code=first["code"])

    def _warm(self) -> None:
        """Visits that count for nothing, until clocks and power have settled under this shape's own load."""
        warming = Warming()
        while not warming.settled:
            visits = {arm: self._visit(arm, "warm", replays=1) for arm in self._alive()}
            warming.saw({arm: (reply["t_us"], reply["gpu_us"]) for arm, reply in visits.items() if reply is not None})

    def _visit(self, arm: Arm, place: str, replays: int = REPLAYS) -> Reply | None:
        label = f"{self.job.case.shape_id}:{arm}:{place}"
        return self._ask(arm, {"do": "visit", "label": label, "method": self.settings.method, "replays": replays})

    def _measure(self) -> None:
        for block in self.blocks:
            for repeat in range(1 + MAX_BLOCK_REPEATS):
                before = self.sensor()
                visits = self._block(block, repeat, before)
                moved = throttled(before, self.sensor())
                if moved is None:
                    break
            for arm, times in visits.items():
                self.results[arm].visits.append(times)
                self.results[arm].processes.append(self.look)
                if moved is not None:
                    self.results[arm].notes.append(f"block {block}: {moved} in all {1 + MAX_BLOCK_REPEATS} tries")
        for arm in self._alive():
            self._finish(arm)

    def _block(self, block: int, repeat: int, before: Reading) -> dict[Arm, list[float]]:
        alive = self._alive()
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
            reply = self._visit(stop.arm, f"{block}:{stop.order}") if self.results[stop.arm].alive else None
            if reply is None:
                continue
            visits[stop.arm].append(reply["t_us"])
            place = {"look": self.look, "block": block, "order": stop.order, "repeat": repeat, "arm": str(stop.arm)}
            self.raw.append({**place, **before.as_dict(), "at": time.time(), **_kept(reply)})
        return {arm: times for arm, times in visits.items() if self.results[arm].alive}

    def _finish(self, arm: Arm) -> None:
        result = self.results[arm]
        message = {
            "do": "finish",
            "times_us": [time_us for block in result.visits for time_us in block],
            "method": self.settings.method,
            "label": f"{self.job.case.shape_id}:{arm}:finish:{self.look}",
        }
        reply = self._ask(arm, message)
        if reply is not None:
            result.profiled_us, result.eager_us = reply["profiled_us"], reply["eager_us"]
            result.bytes_moved, result.flops = reply["bytes_moved"], reply["flops"]
            self._take_findings(arm, reply)

    def _ask(self, arm: Arm, message: Reply) -> Reply | None:
        """One command for one arm: its reply, or None when the arm failed by it. Raises SideLost."""
        reply = self._timed(arm.side, {**message, "arm": str(arm)})
        gpu_us = float(reply.get("gpu_us", 0.0))
        self.results[arm].gpu_us += gpu_us
        self.token.gpu_us += gpu_us
        return reply if self._judged(arm, reply) else None

    def _timed(self, side: str, message: Reply) -> Reply:
        started = time.perf_counter()
        reply = self.crew.ask(side, message)
        self.spent_s[message["do"]] += time.perf_counter() - started
        return reply

    def _judged(self, arm: Arm, reply: Reply) -> bool:
        if reply["status"] == "ok":
            return True
        result = self.results[arm]
        result.fail(status=reply["status"], reason=reply["reason"])
        result.capture_error = reply.get("capture_error")
        if reply.get("fatal"):
            # The process's GPU context is lost; whoever shares it starts afresh.
            raise ContextLost(arm.side)
        return False


def own_memory(reason: str) -> str:
    """What a row says whose arms could not share a ring."""
    return f"head and base lie in memory of their own: {reason}"


def _kept(reply: Reply) -> Reply:
    return {name: reply[name] for name in ("t_us", "full_us", "single_us", "gpu_us")}
