"""algorithm_gap: too far behind for tuning to explain."""

from __future__ import annotations

from gate.analysis.case import Case, Category


def rule(case: Case) -> Category | None:
    """A speedup below the policy's limit (0.5 by default)."""
    if case.best.speedup is None or case.best.speedup >= case.policy.classify.algorithm_below:
        return None
    share = case.peak_share
    peak = f"{share:.0%} of the GPU's peak; " if share is not None else ""
    return Category(
        name="algorithm_gap",
        evidence=f"{peak}{case.behind}",
        likely_fix=f"compare the algorithm with {case.best.provider}'s: passes over the data, fusion, split",
    )
