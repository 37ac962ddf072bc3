"""One process pair of a bisection on a GPU: two versions of one kernel, block by block, in fresh processes."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence

from gate.bisect.ask import AskTimes, Skipped, Times
from gate.commands.bisect_spares import SparedCrew, Spares
from gate.commands.bisect_versions import Source, Unbuildable
from gate.model.problem import Problem, UnusableInput
from gate.replay.arms import ArmSpec
from gate.replay.blocks import BASE, HEAD, Arm
from gate.replay.crew import NoDevice
from gate.replay.job import ArmResult, Job, Settings, Target
from gate.replay.machine import NO_GPU_FIX
from gate.replay.op import Case
from gate.replay.sensors import Reading
from gate.replay.shape_run import ShapeRun
from gate.replay.token import Token


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What is measured: a shape, the provider's name, and where its kernel and its op are found."""

    case: Case
    provider: str
    entrypoint: str
    op: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class Bench:
    """Where pairs are measured: the session's settings, the GPU and who may use it, and the spare workers.

    The worker of the good version stays for the first pair of the next step, whose error it then shares: each
    decision keeps its level, since the levels add up whatever the decisions have in common. Further pairs of one
    comparison are fresh on both sides. `spent_s` adds up the seconds of each command over `pairs`.
    """

    settings: Settings
    gpu: str | None
    token: Token
    spares: Spares
    sensor: Callable[[], Reading] = Reading
    crew: SparedCrew | None = None
    standing: int | None = None
    spent_s: Counter[str] = dataclasses.field(default_factory=Counter)

    def close(self) -> None:
        """Ends the workers of this bisection."""
        if self.crew is not None:
            self.crew.close()
            self.crew = None

    def measure(self, kernel: Kernel, ask: AskTimes, arms: dict[str, ArmSpec]) -> dict[str, ArmResult]:
        """Measures one pair; the results by side. Raises UnusableInput when there is no GPU."""
        keep = self.standing == ask.base and ask.purpose == "step" and ask.process == 0
        seed = int.from_bytes(hashlib.sha256(repr((self.settings.seed, ask)).encode()).digest()[:4], "big")
        settings = dataclasses.replace(self.settings, arms=arms, seed=seed)
        if self.crew is None:
            self.crew = SparedCrew(settings, name="bisect", gpu=self.gpu)
            self.crew.spares = self.spares
        self.crew.settings = settings
        for side in (HEAD,) if keep else (HEAD, BASE):
            self.crew.bury(side)
        targets = tuple(Target(arm=Arm(side, kernel.provider), entrypoint=kernel.entrypoint) for side in (HEAD, BASE))
        job = Job(case=kernel.case, targets=targets, op=kernel.op)
        run = ShapeRun(settings=settings, job=job, crew=self.crew, token=self.token, sensor=self.sensor)
        try:
            run.run()
        except NoDevice as error:
            raise UnusableInput(Problem(what=f"no GPU: {error}", file="", fix=NO_GPU_FIX)) from None
        self.spent_s.update({"pairs": 1, **run.spent_s})
        self.standing = ask.base if ask.purpose != "confirm" else None
        return {arm.side: result for arm, result in run.results.items()}


def answer(ask: AskTimes, *, bench: Bench, kernel: Kernel, source: Source) -> Times | Skipped:
    """The block ratios of one pair, or which of the two versions cannot be measured and why.

    Raises UnusableInput when the good version cannot be measured, without which there is nothing to compare with.
    """
    arms: dict[str, ArmSpec] = {}
    for side, index in ((HEAD, ask.head), (BASE, ask.base)):
        try:
            _, arms[side] = source.make(index)
        except Unbuildable as error:
            return _unmeasured(index, str(error), source)
    results = bench.measure(kernel, ask, arms)
    for side, index in ((BASE, ask.base), (HEAD, ask.head)):
        result = results[side]
        if result.status != "ok":
            told = f"{source.versions[index].short}: {result.status}: {result.reason}"
            return _unmeasured(index, told, source)
    gpu_s = sum(result.gpu_us for result in results.values()) / 1e6
    ratios = log_ratios(results[HEAD].visits, results[BASE].visits)
    typical = statistics.median(time for block in results[BASE].visits for time in block)
    return Times(log_ratios=ratios, gpu_s=round(gpu_s, 4), words=f"base {typical:.3f} us")


def _unmeasured(index: int, reason: str, source: Source) -> Skipped:
    if index == 0:
        what = f"the good version cannot be measured: {reason}"
        raise UnusableInput(Problem(what=what, file="", fix=f"choose another --good ({source.kind})"))
    return Skipped(version=index, reason=reason)


def log_ratios(head: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """log(head/base) of each block, from the means of its visits."""
    return tuple(
        math.log(statistics.fmean(ours) / statistics.fmean(theirs)) for ours, theirs in zip(head, base, strict=True)
    )
