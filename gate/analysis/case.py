"""What a classification rule may look at, and what it may say."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gate.analysis import physics
from gate.analysis.arm import Arm
from gate.analysis.best import Best
from gate.model.decision import Classification, CodeEvidence
from gate.model.diagnosis import Diagnosis
from gate.model.outcome import AnyOutcome
from gate.model.policy import Policy
from gate.model.shape import Shape


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One row to classify. `at_floor`: its time is mostly launch floor; `code` the machine-code comparison and
    `profile` what a profiler saw of the candidate, if any."""

    shape: Shape
    head: Arm
    best: Best
    policy: Policy
    at_floor: bool = False
    code: CodeEvidence | None = None
    profile: Diagnosis | None = None

    @property
    def outcome(self) -> AnyOutcome | None:
        """The candidate's row in head."""
        return self.head.outcome

    @property
    def behind(self) -> str:
        """`22 us against 18 us of triton (0.82x)`: the standing in words."""
        rival = self.best.baseline
        if rival is None or rival.time_us is None or self.head.time_us is None or self.best.speedup is None:
            return ""
        times = f"{self.head.time_us:.4g} us against {rival.time_us:.4g} us of {self.best.provider}"
        return f"{times} ({self.best.speedup:.2f}x)"

    @property
    def peak_share(self) -> float | None:
        """The hardware's bound over the candidate's time."""
        return None if self.outcome is None else physics.share_of_peak(self.shape, self.outcome)


class Category(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule says: the category, the sentence with the numbers behind it, and what would likely help."""

    name: Classification
    evidence: str
    likely_fix: str = ""


Rule = Callable[[Case], Category | None]


def spread(outcome: AnyOutcome | None) -> float | None:
    """p90 over p10 of a row, None where it does not say."""
    if outcome is None or not outcome.p10_us or not outcome.p90_us or outcome.p10_us <= 0:
        return None
    return outcome.p90_us / outcome.p10_us


def is_unstable(outcome: AnyOutcome | None, policy: Policy) -> bool:
    """Whether the row's samples spread further than the policy allows."""
    if outcome is None:
        return False
    ratio = spread(outcome)
    return outcome.stable is False if ratio is None else ratio > 1 + policy.noise.unstable
