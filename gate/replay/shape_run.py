"""How one shape is brought to an end by one crew: look by look, and again without whatever took a worker down."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gate.replay.attempt import Attempt, Spoiled, own_memory
from gate.replay.blocks import BASE, CONTROL, HEAD, Arm
from gate.replay.crew import ContextLost, Crew, SharingLost, SideLost
from gate.replay.job import ArmResult, Job, Settings
from gate.replay.looks import clearly_clean
from gate.replay.measuring import Measuring
from gate.replay.sensors import Reading
from gate.replay.talk import Talk
from gate.replay.token import Token

Reply = dict[str, Any]
KILLS_FORGIVEN = 3


@dataclass(slots=True, kw_only=True)
class ShapeRun:
    """One shape on its way. `results` and `raw` are what the journal keeps; `context_lost` says that some arm lost its
    process the GPU; `share` ends where head and base must not share a ring."""

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
    share: bool = True

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

    @property
    def short_of_memory(self) -> bool:
        """Whether memory may have been short: the GPU's, be it that a ring is not cold for it, or the host's, whose
        kernel kills time and again."""
        full = any(result.status == "oom" or (result.plan or {}).get("short") for result in self.results.values())
        return full or any(count > KILLS_FORGIVEN for count in self.kills.values())

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
                self._attempt(look, blocks).run()
                return
            except SideLost as lost:
                for each in (lost, *lost.also):
                    self.context_lost = self.context_lost or isinstance(each, ContextLost)
                    self.crew.bury(each.side)
                    self._blame(each)
            except Spoiled as spoiled:
                self.share = False
                for arm in self._alive():
                    if arm.side != CONTROL:
                        self.results[arm].notes.append(own_memory(str(spoiled)))
            for arm, result in self.results.items():
                del result.visits[kept[arm] :], result.processes[kept[arm] :]
            del self.raw[raw:]

    def _attempt(self, look: int, blocks: range) -> Attempt:
        talk = Talk(crew=self.crew, token=self.token, results=self.results, spent_s=self.spent_s)
        measuring = Measuring(
            settings=self.settings,
            job=self.job,
            talk=talk,
            sensor=self.sensor,
            raw=self.raw,
            look=look,
            blocks=blocks,
        )
        return Attempt(settings=self.settings, job=self.job, talk=talk, measuring=measuring, share=self.share)

    def _blame(self, lost: SideLost) -> None:
        if isinstance(lost, ContextLost | SharingLost):
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
