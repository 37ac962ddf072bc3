"""When a shape is warm, when it needs another look or a block again."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gate.replay.sensors import Reading

# One-sided 99% points of Student's t for n - 1 = 1 ... 15 degrees of freedom.
T99 = (31.8, 6.96, 4.54, 3.75, 3.36, 3.14, 3.00, 2.90, 2.82, 2.76, 2.72, 2.68, 2.65, 2.62, 2.60)
# Rounds that agree with the one before, of kernels that load the whole GPU and of others; what still moves under the
# first blocks is seen there (`unsettled`).
SETTLED, LOADED_AGREEING, AGREEING, MAX_WARM_ROUNDS = 0.005, 2, 1, 12
MOVED_LOG = math.log(1.01)
LONG_US, LONG_WARM_US = 50.0, 100_000.0
# After so much load clocks have settled, and rounds of few launches that still disagree do so by their noise.
MOST_WARM_US = 500_000.0
# From this share of the dense peak on, a long kernel may draw so much power that clocks fall. On an H200 (710 shapes of
# 50 us and more) they fell for 90 of the 130 above 60% of bf16's peak, and for 2 of the others.
HEAVY_SHARE = 0.15
SUSPECT_LOG = math.log(1.01)
CEILING_LOG = math.log(1.05)


@dataclass(slots=True)
class Warming:
    """The rounds of visits before the first that counts, and whether clocks and power have settled under them.

    Rounds that agree are not enough for `heavy` kernels, which load the whole GPU: on an H200 such a kernel ran 7% to
    10% too fast for up to 0.1 s of load, and just as steadily.
    """

    heavy: bool
    rounds: int = 0
    gpu_us: float = 0.0
    agreeing: int = 0
    settled: bool = False
    last: Mapping[Any, float] = field(default_factory=dict)

    def saw(self, visits: Mapping[Any, tuple[float, float]]) -> None:
        """One more round: by arm, microseconds a launch and microseconds of device work."""
        self.rounds += 1
        self.gpu_us += sum(gpu_us for _, gpu_us in visits.values())
        now = {arm: t_us for arm, (t_us, _) in visits.items()}
        steady = all(abs(t_us / self.last[arm] - 1) < SETTLED for arm, t_us in now.items() if self.last.get(arm))
        self.agreeing = self.agreeing + 1 if steady and self.last else 0
        needed, load_us = (LOADED_AGREEING, LONG_WARM_US) if self._loads(now) else (AGREEING, 0.0)
        agreed = self.agreeing >= needed or self.rounds >= MAX_WARM_ROUNDS
        self.settled = (agreed and self.gpu_us >= load_us) or self.gpu_us >= MOST_WARM_US or not now
        self.last = now

    @property
    def loaded(self) -> bool:
        """Whether some arm may bring the GPU to its power limit, so that clocks follow what ran before."""
        return self._loads(self.last)

    def _loads(self, times_us: Mapping[Any, float]) -> bool:
        return self.heavy and max(times_us.values(), default=0.0) >= LONG_US


def throttled(before: Reading, after: Reading) -> str | None:
    """Integrity check 7 on one block: a slowdown that began or was on, in words, or None."""
    if after.throttle:
        return f"the GPU slowed itself down (event mask {after.throttle:#x})"
    if before.throttle:
        return f"the GPU was slowed down (event mask {before.throttle:#x})"
    return None


def unsettled(found: Mapping[int, Mapping[Any, Sequence[float]]]) -> list[int]:
    """The first blocks that all arms together took at another pace than the last one: clocks had not settled yet.

    Which blocks these are depends on the arms' common pace alone, so that no difference between arms is chosen. An arm
    with a mean that is not positive has no pace; integrity check 8 is its end.
    """
    blocks = [block for block, visits in found.items() if visits]
    means = [{arm: statistics.fmean(times) for arm, times in found[block].items()} for block in blocks]
    arms = [arm for arm in (means[0] if means else ()) if all(mean.get(arm, 0.0) > 0 for mean in means)]
    paces = [statistics.fmean(math.log(mean[arm]) for arm in arms) if arms else 0.0 for mean in means]
    early = itertools.takewhile(lambda place: abs(paces[place] - paces[-1]) > MOVED_LOG, range(len(blocks)))
    return [blocks[place] for place in early]


def clearly_clean(head: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> bool:
    """Whether more blocks could not turn this pair into a finding: the mean log ratio is below 1% and its one-sided
    99% upper bound is below 5%. The judgement itself is made elsewhere, from all blocks."""
    ratios = [math.log(statistics.fmean(h) / statistics.fmean(b)) for h, b in zip(head, base, strict=True) if h and b]
    if len(ratios) < 2:
        return False
    mean = statistics.fmean(ratios)
    error = statistics.stdev(ratios) / math.sqrt(len(ratios))
    t99 = T99[min(len(ratios) - 2, len(T99) - 1)]
    return mean < SUSPECT_LOG and mean + t99 * error < CEILING_LOG
