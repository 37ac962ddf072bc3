"""Which rows of a decision are worth a profiler run: hot, clearly behind the best baseline, and stable."""

from __future__ import annotations

from collections.abc import Iterable

from gate.model.decision import Decision, RowFinding
from gate.model.diagnosis import ProfileChoice
from gate.model.policy import Policy


def choices(decision: Decision, *, most: int | None = None) -> tuple[ProfileChoice, ...]:
    """One choice for every row, in the decision's order; of more than `most` the furthest behind are taken."""
    limit = _limit(decision)
    wanted = [row for row in decision.rows if row.profile]
    taken = {row.shape_id for row in _furthest(wanted)[: len(wanted) if most is None else most]}
    return tuple(_choice(row, limit=limit, taken=row.shape_id in taken) for row in decision.rows)


def _furthest(rows: Iterable[RowFinding]) -> list[RowFinding]:
    return sorted(rows, key=lambda row: (row.speedup_vs_best or 0.0, row.shape_id))


def _limit(decision: Decision) -> float:
    """The speedup below which a row is profiled: the decision's own policy, else the default."""
    found = decision.policy.get("classify.profile_below")
    table = decision.policy.get("classify")
    if found is None and isinstance(table, dict):
        found = table.get("profile_below")
    return float(found) if isinstance(found, (int, float)) else Policy().classify.profile_below


def _choice(row: RowFinding, *, limit: float, taken: bool) -> ProfileChoice:
    if row.profile and taken:
        reason = f"hot, {row.speedup_vs_best or 0.0:.3f} of {row.best_baseline}'s speed (below {limit:.2f}), stable"
        return ProfileChoice(shape_id=row.shape_id, provider=row.provider, profile=True, reason=reason)
    reason = f"deferred: {_why_not(row, limit)}"
    return ProfileChoice(shape_id=row.shape_id, provider=row.provider, profile=False, reason=reason)


def _why_not(row: RowFinding, limit: float) -> str:
    if row.profile:
        return "rows that are further behind come first"
    if row.status not in (None, "ok"):
        return f"nothing to profile, its status is {row.status}"
    if row.classification == "measurement_issue":
        return "its time cannot be believed; measure it again first"
    if row.speedup_vs_best is None:
        return "there is no baseline to be behind of" if row.head_us is not None else "it was not timed"
    if row.speedup_vs_best >= limit:
        return f"{row.speedup_vs_best:.3f} of {row.best_baseline}'s speed is not below {limit:.2f}"
    if not row.hot:
        return f"not hot: stage {row.stage} is no model's or server's shape"
    return "unstable: it is measured again, not profiled"
