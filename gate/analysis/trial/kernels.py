"""The power kernel by kernel: an average hides the one kernel that is never found."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from gate.analysis.trial.ours import judge_commit
from gate.analysis.trial.source import Source
from gate.model.policy import Policy

# Slowed together in one commit: few enough that the others still say what noise is usual.
TOGETHER = 5


class KernelPower(msgspec.Struct, frozen=True, kw_only=True):
    """How often each kernel, in the source's order, was found slower by `factor` in `tries` commits of its own."""

    factor: float
    tries: int
    times_us: tuple[float, ...]
    found: tuple[int, ...]

    def at_least(self, share: float) -> int:
        """How many kernels were found in at least this share of the tries."""
        return sum(1 for hits in self.found if hits >= share * self.tries)


def each_kernel(
    source: Source,
    policy: Policy,
    *,
    factor: float,
    tries: int,
    seed: int,
    progress: Callable[[str], None] = lambda item: None,
) -> KernelPower:
    """Slows every kernel `tries` times, a few at a time."""
    n = len(source.times_us)
    found = np.zeros(n, dtype=int)
    for number in range(tries):
        rng = np.random.default_rng([seed, 4, number])
        order = rng.permutation(n)
        for start in range(0, n, TOGETHER):
            chosen = order[start : start + TOGETHER].tolist()
            red = judge_commit(source, policy, slowed=dict.fromkeys(chosen, factor), rng=rng).red
            found[[row for row in chosen if row in red]] += 1
        progress(f"every kernel slowed by {factor - 1:.0%}")
    return KernelPower(
        factor=factor,
        tries=tries,
        times_us=tuple(round(time, 3) for time in source.times_us.tolist()),
        found=tuple(found.tolist()),
    )
