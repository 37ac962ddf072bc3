"""How sure a bisection must be, and what it answers: values only."""

from __future__ import annotations

from typing import Literal

import msgspec

from gate.bisect.evidence import NoiseModel

State = Literal["good", "bad", "skipped", "unclear"]
Word = Literal["found", "no_regression", "undecided"]


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """How sure the bisection must be, and how much it may measure.

    `alpha` bounds the chance of a wrong answer over the whole bisection. Good and bad differ when a slowdown of more
    than `floor` is established, and do not differ when `at_least` is excluded (fractions). A comparison takes at least
    `least_pairs` process pairs (the ends) and at most `most_pairs`.
    """

    alpha: float = 0.05
    floor: float = 0.01
    at_least: float = 0.04
    least_pairs: int = 2
    most_pairs: int = 32
    noise: NoiseModel = NoiseModel()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One version that was decided: how (its code, or its times against `against`), and the ratio with its bounds."""

    version: int
    state: State
    how: Literal["code", "times"]
    words: str
    against: int | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    process_pairs: int = 0
    gpu_s: float = 0.0


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `suspects` are the versions of which one is the first slow one: a single one unless some could not
    be decided. `slowdown` is bad over good, and `confirmed` the first slow one over the version before the suspects."""

    word: Word
    sentence: str
    suspects: tuple[int, ...] = ()
    last_good: int | None = None
    slowdown: float | None = None
    confirmed: float | None = None
    alpha: float = 0.05
    steps: tuple[Step, ...] = ()
    process_pairs: int = 0
    gpu_s: float = 0.0
