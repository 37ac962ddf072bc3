"""The candidate against the best pinned baseline of a row, and what may be said against that comparison."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gate.analysis.arm import Arm
from gate.model.matrix import Matrix
from gate.model.outcome import AnyOutcome


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """`speedup` is the best baseline's time over the candidate's (> 1: candidate faster), None where unknown."""

    provider: str | None = None
    speedup: float | None = None
    baseline: Arm | None = None
    reasons: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def best(
    matrix: Matrix, pinned: tuple[str, ...], *, candidate: Arm, base: Mapping[str, Arm], head: Mapping[str, Arm]
) -> Best:
    """The standing of one row. `base` and `head` hold the arms of the pinned baselines.

    The incumbent is chosen on base's times, so that the samples being compared do not choose it; only where base has
    none is it chosen on head's (said in the reasons). A pinned baseline that was expected and is not there is named
    and never replaced by another: if it was the incumbent, the row has no standing.
    """
    absent = tuple(name for name in pinned if _expected(base[name], head[name]))
    known = {name: arm.time_us for name in pinned if (arm := base[name]).time_us is not None and _same(arm, candidate)}
    chosen = known or {
        name: arm.time_us for name in pinned if (arm := head[name]).time_us is not None and _same(arm, candidate)
    }
    if not chosen:
        return Best(reasons=("baseline_absent",) if absent else ("no_baseline",), absent=absent)
    incumbent = min(chosen, key=lambda name: (chosen[name] or 0.0, name))
    arm = head[incumbent]
    if arm.time_us is None or not _same(arm, candidate):
        return Best(provider=incumbent, reasons=("baseline_absent",), absent=absent)
    reasons: tuple[str, ...] = () if known else ("incumbent_from_head",)
    assert arm.outcome is not None and candidate.outcome is not None
    reasons += doubts(matrix, incumbent, arm.outcome, candidate.outcome, only=len(chosen) == 1)
    speedup = None if candidate.time_us is None else arm.time_us / candidate.time_us
    return Best(provider=incumbent, speedup=speedup, baseline=arm, reasons=reasons, absent=absent)


def _expected(base: Arm, head: Arm) -> bool:
    """Whether a pinned baseline should have had a row in head: it never ran, or ran in base and does not in head."""
    return head.state == "absent" or (base.state == "ok" and head.state != "ok")


def _same(baseline: Arm, candidate: Arm) -> bool:
    """Whether the baseline's time may stand against the candidate's: one clock, one cache state."""
    if baseline.outcome is None or candidate.outcome is None:
        return False
    return same_clock(baseline.outcome, candidate.outcome)


def same_clock(one: AnyOutcome, two: AnyOutcome) -> bool:
    """Whether two rows were timed in one way with the cache in one state."""
    return one.timing_method == two.timing_method and one.cache_state == two.cache_state


def doubts(matrix: Matrix, name: str, baseline: AnyOutcome, candidate: AnyOutcome, *, only: bool) -> tuple[str, ...]:
    """What may be said against a baseline; `only`: no other has a time."""
    found: tuple[str, ...] = ()
    entry, detail = matrix.providers.get(name), baseline.provider_detail or ""
    if entry is not None and entry.backend_visibility_required and not detail:
        found = (*found, "opaque_baseline")
    if only and name == matrix.reference_provider:
        found = (*found, "reference_only")
    if (baseline.includes_layout_conversion or False) != (candidate.includes_layout_conversion or False):
        found = (*found, "unmatched_baseline")
    return found
