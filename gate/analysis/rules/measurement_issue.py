"""measurement_issue: the time itself cannot be believed."""

from __future__ import annotations

from gate.analysis.case import Case, Category, is_unstable, spread
from gate.model.reasons import sentence


def rule(case: Case) -> Category | None:
    """An unusable row, or samples of candidate or best baseline that spread too far: measure again, do not profile."""
    if case.head.state == "unusable":
        why = case.head.detail or sentence(case.head.reasons[0])
        return Category(name="measurement_issue", evidence=f"{why}", likely_fix="correct the measurement and repeat it")
    rival = case.best.baseline.outcome if case.best.baseline else None
    for who, outcome in (("the candidate", case.outcome), (f"baseline {case.best.provider}", rival)):
        if is_unstable(outcome, case.policy):
            ratio = spread(outcome)
            told = f"p90/p10 of {who} is {ratio:.2f}" if ratio is not None else f"{who} is marked unstable"
            return Category(name="measurement_issue", evidence=told, likely_fix="measure again with more blocks")
    return None
