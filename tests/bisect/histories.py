"""Histories with a known answer: simulated noise of a slope-timed H200 and of published one-launch MI350X results."""

from __future__ import annotations

import math
import random
from collections.abc import Collection

import msgspec

from gate.bisect.ask import Answer, Ask, AskCode, Code, Skipped, Times

# Share of a visit's variance that sticks to its process (public A/A results).
STICKY = 0.4
BLOCKS, VISITS = 4, 2


class World(msgspec.Struct, frozen=True, kw_only=True):
    """`bad_at` is the first slow version (`count` for none), `effect` its slowdown; `skip` cannot be built."""

    seed: int
    noise: str
    bad_at: int
    effect: float
    count: int = 16
    skip: frozenset[int] = frozenset()
    codes: tuple[str, ...] = ()
    sticky: float = STICKY

    def answer(self, ask: Ask) -> Answer:
        """What a measurement would say; it depends on the question alone, not on when it is asked."""
        if isinstance(ask, AskCode):
            if ask.version in self.skip:
                return Skipped(version=ask.version, reason=f"version {ask.version} does not build")
            return Code(signature=self.codes[ask.version] if self.codes else "")
        rng = random.Random(f"{self.seed}:{ask.head}:{ask.base}:{ask.process}:{ask.purpose}")
        effect = self.time_of(ask.head) - self.time_of(ask.base)
        luck = math.sqrt(self.sticky) * (visit(rng, self.noise) - visit(rng, self.noise))
        own = math.sqrt(1 - self.sticky)

        def mean() -> float:
            return sum(own * visit(rng, self.noise) for _ in range(VISITS)) / VISITS

        return Times(log_ratios=tuple(effect + luck + mean() - mean() for _ in range(BLOCKS)), gpu_s=0.1)

    def time_of(self, version: int) -> float:
        return math.log1p(self.effect) if version >= self.bad_at else 0.0


def visit(rng: random.Random, noise: str) -> float:
    """log of one visit over the kernel's true time.

    MI350X: a mixture whose |ratio - 1| of two visits has p50 1.0%, p95 5%, p99 10%, as public results of equal code
    have (0.93%, 5.6%, 10.7%); H200: 0.3%, which two visits of the slope timer show.
    """
    if noise == "h200":
        return rng.gauss(0.0, 0.003)
    draw = rng.random()
    sd = 0.0067 if draw < 0.76 else 0.025 if draw < 0.96 else 0.07
    return rng.gauss(0.0, sd)


def world(seed: int, *, noise: str, effect: float, skipped: float = 0.0, count: int = 16) -> World:
    """One seeded history."""
    rng = random.Random(f"world {seed}")
    inside: Collection[int] = range(1, count - 1)
    return World(
        seed=seed,
        noise=noise,
        bad_at=rng.randrange(1, count) if effect else count,
        effect=effect,
        count=count,
        skip=frozenset(version for version in inside if rng.random() < skipped),
    )
