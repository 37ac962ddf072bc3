"""ok: the candidate is as fast as the best baseline, or close enough."""

from __future__ import annotations

from gate.analysis.case import Case, Category


def rule(case: Case) -> Category | None:
    """A speedup at or above the policy's limit (0.95 by default)."""
    if case.best.speedup is None or case.best.speedup < case.policy.classify.ok:
        return None
    return Category(name="ok", evidence=case.behind)
