"""How one shape is measured by one crew: prepare the arms, hold the GPU, visit them block by block."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from gate.replay.blocks import BASE, CONTROL, HEAD, Arm, schedule
from gate.replay.chips import Chip
from gate.replay.crew import Crew, SideLost
from gate.replay.job import ArmResult, Job, Settings
from gate.replay.link import WorkerDied
from gate.replay.looks import Token, clearly_clean, throttled
from gate.replay.sensors import Reading
from gate.replay.timer import plan_ring

Reply = dict[str, Any]
MAX_BLOCK_REPEATS = 2
KILLS_FORGIVEN = 3
MAX_WARM_ROUNDS = 6
SETTLED = 0.005


class _ContextLost(SideLost):
    """A worker answered that its GPU context is lost; the arm at fault already has its reason."""

    def __init__(self, side: str) -> None:
        super().__init__(side, None, WorkerDied("the GPU context was lost"))


@dataclass(slots=True, kw_only=True)
class ShapeRun:
    """One shape on its way. `results` and `raw` are what the journal keeps."""

    settings: Settings
    job: Job
    crew: Crew
    token: Token
    sensor: Callable[[], Reading]
    results: dict[Arm, ArmResult] = field(default_factory=dict)
    raw: list[Reply] = field(default_factory=list)
    spent_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    kills: Counter[Arm] = field(default_factory=Counter)
    context_lost: bool = False

    def run(self) -> None:
        """Measures every arm, look by look. Each arm ends `ok` or with its reason; no other arm suffers."""
        self.results = {target.arm: ArmResult() for target in self.job.targets}
        if self.job.blocks is not None:
            self._look(self.job.process, range(*self.job.blocks))
            return
        looks = self.settings.looks if self.settings.timing else (1,)
        start = 0
        for look, stop in enumerate(looks):
            self._look(look, range(start, stop))
            if not self._needs_more(stop):
                return
            start = stop
            if stop != looks[-1]:
                # A process has luck of its own that more blocks in it cannot average out.
                for side in (HEAD, BASE):
                    self.crew.bury(side)

    def _needs_more(self, blocks: int) -> bool:
        pairs = [(arm, Arm(BASE, arm.provider)) for arm in self.job.of_side(HEAD)]
        judged = [
            (self.results[head].visits, self.results[base].visits)
            for head, base in pairs
            if base in self.results and self.results[head].alive and self.results[base].alive
        ]
        return any(not clearly_clean(head[:blocks], base[:blocks]) for head, base in judged)

    def _look(self, look: int, blocks: range) -> None:
        """One look, tried again without the arm that took its worker down."""
        while any(result.alive for result in self.results.values()):
            kept = {arm: len(result.visits) for arm, result in self.results.items()}
            raw = len(self.raw)
            try:
                self._attempt(look, blocks)
                return
            except SideLost as lost:
                self.crew.bury(lost.side)
                self._blame(lost)
                for arm, result in self.results.items():
                    del result.visits[kept[arm] :], result.processes[kept[arm] :]
                del self.raw[raw:]

    def _blame(self, lost: SideLost) -> None:
        if isinstance(lost, _ContextLost):
            return
        arm = next((arm for arm in self.results if str(arm) == lost.arm), None)
        blamed = [arm] if arm is not None else [arm for arm in self._alive() if arm.side == lost.side]
        for each in blamed:
            self.kills[each] += 1
            if lost.death.outside and self.kills[each] <= KILLS_FORGIVEN:
                # Signal 9 comes from outside the process: the kernel gets another chance, and the row says so.
                self.results[each].notes.append(f"measured again after {lost.death.reason}")
            else:
                self.results[each].fail(status="failed", reason=lost.death.reason, code="worker_died")

    def _alive(self) -> list[Arm]:
        return [arm for arm, result in self.results.items() if result.alive]

    def _attempt(self, look: int, blocks: range) -> None:
        sides = dict.fromkeys(arm.side for arm in self._alive())
        self.crew.start(sides, hold=self.token.hold)
        self._drop()
        self._open()
        with self.token.hold():
            estimates = {arm: reply for arm in self._alive() if (reply := self._ask(arm, {"do": "pilot"})) is not None}
            plans = self._plans(estimates)
            for arm in self._alive():
                self.results[arm].plan = plans[arm]
                if self._ask(arm, {"do": "build", "plan": plans[arm]}) is not None:
                    # Making a graph allocates on the device, which a measurement on it would feel.
                    self._ask(arm, {"do": "capture"})
        with self.token.hold():
            self._check()
            if self.settings.timing:
                self._warm()
                self._measure(look, blocks)
            # Freeing memory waits for the device and unmaps pages, which another lane's measurement would feel.
            self._drop()

    def _drop(self) -> None:
        for side in list(self.crew.links):
            self._timed(side, {"do": "drop"})

    def _warm(self) -> None:
        """Visits that count for nothing, until clocks and power have settled under this shape's own load."""
        last: dict[Arm, float] = {}
        for _ in range(MAX_WARM_ROUNDS):
            now: dict[Arm, float] = {}
            for arm in self._alive():
                label = f"{self.job.case.shape_id}:{arm}:warm"
                reply = self._ask(arm, {"do": "visit", "label": label, "method": self.settings.method})
                if reply is not None:
                    now[arm] = reply["t_us"]
            if last and all(abs(now[arm] / last[arm] - 1) < SETTLED for arm in now if last.get(arm)):
                return
            last = now

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

    def _plans(self, estimates: dict[Arm, Reply]) -> dict[Arm, Reply]:
        """The ring of each arm; head and base of one provider share theirs, made for the quicker of the two."""
        plans: dict[Arm, Reply] = {}
        for arm, reply in estimates.items():
            twins = [other for name, other in estimates.items() if name.provider == arm.provider]
            plans[arm] = asdict(
                plan_ring(
                    footprint_bytes=max(int(twin["footprint_bytes"]) for twin in twins),
                    estimate_us=min(twin["estimate_us"] for twin in twins),
                    chip=Chip(**self.crew.chips[arm.side]),
                    free_bytes=min(int(twin["free_bytes"]) for twin in twins),
                    budget_us=self.settings.budget_us,
                )
            )
            del reply
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
            self.results[arm].fail(status=first["status"], reason=first["text"], code=first["code"])

    def _measure(self, look: int, blocks: range) -> None:
        for block in blocks:
            for repeat in range(1 + MAX_BLOCK_REPEATS):
                before = self.sensor()
                visits = self._block(look, block, repeat, before)
                moved = throttled(before, self.sensor())
                if moved is None:
                    break
            for arm, times in visits.items():
                self.results[arm].visits.append(times)
                self.results[arm].processes.append(look)
                if moved is not None:
                    self.results[arm].notes.append(f"block {block}: {moved} in all {1 + MAX_BLOCK_REPEATS} tries")
        for arm in self._alive():
            self._finish(arm, look)

    def _block(self, look: int, block: int, repeat: int, before: Reading) -> dict[Arm, list[float]]:
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
            if not self.results[stop.arm].alive:
                continue
            label = f"{self.job.case.shape_id}:{stop.arm}:{block}:{stop.order}"
            reply = self._ask(stop.arm, {"do": "visit", "label": label, "method": self.settings.method})
            if reply is None:
                continue
            visits[stop.arm].append(reply["t_us"])
            place = {"look": look, "block": block, "order": stop.order, "repeat": repeat, "arm": str(stop.arm)}
            self.raw.append({**place, **before.as_dict(), "at": time.time(), **_kept(reply)})
        return {arm: times for arm, times in visits.items() if self.results[arm].alive}

    def _finish(self, arm: Arm, look: int) -> None:
        result = self.results[arm]
        message = {
            "do": "finish",
            "times_us": [time_us for block in result.visits for time_us in block],
            "method": self.settings.method,
            "label": f"{self.job.case.shape_id}:{arm}:finish:{look}",
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
            self.context_lost = True
            raise _ContextLost(arm.side)
        return False


def _kept(reply: Reply) -> Reply:
    return {name: reply[name] for name in ("t_us", "full_us", "single_us", "gpu_us")}
