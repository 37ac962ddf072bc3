"""baseline_unfair_or_unmatched: there is no baseline that does the same work by the same clock."""

from __future__ import annotations

from gate.analysis.case import Case, Category
from gate.model.reasons import sentence

DOUBTS = ("baseline_absent", "no_baseline", "opaque_baseline", "unmatched_baseline", "reference_only")
FIXES = {
    "baseline_absent": "measure the absent baseline again",
    "no_baseline": "add a baseline of the same op, dtype and clock",
    "opaque_baseline": "record which backend the baseline ran",
    "unmatched_baseline": "move the baseline's conversion out of the timed part, or the candidate's into it",
    "reference_only": "add an optimised baseline; the reference is no rival",
}


def rule(case: Case) -> Category | None:
    """The first doubt that the comparison itself raised."""
    doubt = next((code for code in DOUBTS if code in case.best.reasons), None)
    if doubt is None:
        return None
    standing = f"; {case.behind}" if case.behind else ""
    return Category(
        name="baseline_unfair_or_unmatched", evidence=f"{sentence(doubt)}{standing}", likely_fix=FIXES[doubt]
    )
