"""From estimates to row verdicts: the screen over all rows, the confirmation of suspects, the three states."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from gate.analysis.controls import Controls
from gate.analysis.estimate import Estimate, Pair
from gate.analysis.multiple import benjamini_hochberg, holm
from gate.model.decision import Verdict
from gate.model.outcome import AnyOutcome
from gate.model.policy import Policy

# No further look will tell more of a row that has been measured to the last one.
LAST_LOOK = 5


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one tested pair; `suspect`: the screen named it and nothing confirmed it."""

    verdict: Verdict
    reasons: tuple[str, ...]
    suspect: bool = False


def rule(
    pairs: Sequence[Pair],
    estimates: Sequence[Estimate],
    *,
    policy: Policy,
    controls: Controls,
    confirmed: Mapping[str, Estimate],
) -> list[Ruling]:
    """One ruling per pair, in order. `confirmed` holds the estimates of a confirming session by shape_id."""
    tested = [index for index, estimate in enumerate(estimates) if estimate.kind == "blocks"]
    slow = _screen([estimates[index].p_slow for index in tested], policy)
    fast = _screen([estimates[index].p_fast for index in tested], policy)
    screened = [index for index, is_slow in zip(tested, slow, strict=True) if is_slow]
    named = {*screened, *(index for index in tested if _suspicious(estimates[index], policy))}
    again = {index: found for index in sorted(named) if (found := confirmed.get(pairs[index].shape.shape_id))}
    # A fresh session decides alone, so naming more suspects costs it no error; without one the screen must agree.
    alpha = policy.confirm.alpha
    fresh = {index: estimate.p_slow for index, estimate in again.items()}
    # On the samples that named them, suspects must stand among all rows, and allow for processes that were not seen.
    same = {index: estimates[index].p_alone for index in tested if index not in again}
    established = _stand(fresh, alpha / len(policy.confirm.processes)) | (_stand(same, alpha) & {*screened})
    waiting = {index for index in screened if index not in again}
    faster = {index for index, is_fast in zip(tested, fast, strict=True) if is_fast}
    return [
        _paired(
            pair,
            estimate,
            policy,
            slow=index in established,
            suspect=("awaits_confirmation" if index in waiting else "unconfirmed") if index in named else "",
            fast=index in faster,
        )
        if estimate.kind == "blocks"
        else _stored(pair, estimate, controls)
        for index, (pair, estimate) in enumerate(zip(pairs, estimates, strict=True))
    ]


def _suspicious(estimate: Estimate, policy: Policy) -> bool:
    """Whether a row goes to the confirming session by its own p-value; after the last look more readily."""
    last = estimate.n_blocks >= policy.screen.looks[-1]
    return estimate.p_slow < policy.screen.suspect * (LAST_LOOK if last else 1)


def _screen(p: Sequence[float], policy: Policy) -> list[bool]:
    rejected: list[bool] = benjamini_hochberg(np.array(p), q=policy.screen.fdr / len(policy.screen.looks)).tolist()
    return rejected


def _stand(found: Mapping[int, float], alpha: float) -> set[int]:
    """Which rows of a family are slower for certain, by their p-values."""
    stands = holm(np.array(list(found.values())), alpha=alpha).tolist()
    return {index for index, stand in zip(found, stands, strict=True) if stand}


def not_slower_log(pair: Pair, policy: Policy) -> float:
    """The bound below which a row counts as not slower, in log units: the zone's, or the row's own ceiling."""
    return math.log1p(max(policy.thresholds.not_slower, pair.ceiling))


def _paired(pair: Pair, estimate: Estimate, policy: Policy, *, slow: bool, suspect: str, fast: bool) -> Ruling:
    if slow:
        return Ruling(verdict="regressed", reasons=("slower", *estimate.notes))
    if suspect:
        return Ruling(verdict="inconclusive", reasons=(suspect, *estimate.notes), suspect=True)
    if fast:
        return Ruling(verdict="improved", reasons=("faster", *estimate.notes))
    if _hidden(pair):
        return Ruling(verdict="inconclusive", reasons=("floor_limited", *estimate.notes))
    if estimate.hi < not_slower_log(pair, policy):
        over = estimate.lo > math.log1p(policy.thresholds.slower)
        return Ruling(verdict="unchanged", reasons=("under_ceiling" if over else "within_noise", *estimate.notes))
    unstable = pair.base.notes + pair.head.notes
    return Ruling(verdict="inconclusive", reasons=tuple(dict.fromkeys(("wide_interval", *estimate.notes, *unstable))))


def _hidden(pair: Pair) -> bool:
    """Whether both arms take no longer than an empty kernel: such times cannot show that a kernel is no slower."""
    arms = (pair.base.outcome, pair.head.outcome)
    return all(outcome is not None and outcome.dispatch_bound is True for outcome in arms)


def _stored(pair: Pair, estimate: Estimate, controls: Controls) -> Ruling:
    moved = estimate.shift != 0.0
    assert pair.base.outcome is not None and pair.head.outcome is not None
    checked = pair.shape.op_type in controls.checked
    reasons = session_reasons(pair.base.outcome, pair.head.outcome, moved=moved, checked=checked)
    own = estimate.log_ratio - estimate.shift
    if min(own, estimate.log_ratio) > estimate.limit:
        return Ruling(verdict="regressed", reasons=("slower", *reasons))
    if moved:
        return Ruling(verdict="inconclusive", reasons=reasons)
    if own < -estimate.limit:
        return Ruling(verdict="improved", reasons=("faster", *reasons))
    if estimate.notes:
        return Ruling(verdict="inconclusive", reasons=(*estimate.notes, *reasons))
    if own <= max(estimate.within, math.log1p(pair.ceiling)):
        return Ruling(verdict="unchanged", reasons=("within_noise", *reasons))
    return Ruling(verdict="inconclusive", reasons=("above_noise", *reasons), suspect=True)


def session_reasons(base: AnyOutcome, head: AnyOutcome, *, moved: bool, checked: bool) -> tuple[str, ...]:
    """How two summaries came about. `moved`: the controls did; `checked`: there were enough of them to tell."""
    if base.session_id is not None and base.session_id == head.session_id:
        measured = base.blocks_us is not None or head.blocks_us is not None
        return ("too_few_blocks",) if measured else ("summaries_only",)
    how = "separate_sessions" if base.session_id and head.session_id else "summaries_only"
    if moved:
        return "control_moved", how
    return (how,) if checked else ("no_control", how)
