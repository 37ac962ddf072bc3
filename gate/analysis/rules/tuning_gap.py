"""tuning_gap: behind the best baseline by an amount that tile sizes and scheduling can explain."""

from __future__ import annotations

from gate.analysis.case import Case, Category


def rule(case: Case) -> Category | None:
    """Whatever has a standing and none of the other explanations."""
    if case.best.speedup is None:
        return None
    share = case.peak_share
    peak = f"{share:.0%} of the GPU's peak; " if share is not None else ""
    return Category(
        name="tuning_gap", evidence=f"{peak}{case.behind}", likely_fix="tune tile, workgroup and vector sizes"
    )
