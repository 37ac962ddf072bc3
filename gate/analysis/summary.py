"""The comparison of stored summaries: the policy's noise floor by method and time stratum, and the launch floor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gate.analysis.book import Book
from gate.analysis.estimate import Estimate, Pair, strata
from gate.model.outcome import AnyOutcome
from gate.model.policy import Policy
from gate.model.policy_noise import Floor

# Rows a run needs before its own fastest ones show the launch floor, and the share of them that is the floor.
FLOOR_ROWS = 40
FLOOR_QUANTILE = 0.02
# 90% power and 95% two-sided, in standard deviations of a normal.
Z_POWER, Z_INTERVAL = 1.2816, 1.96


def floor_of(method: str | None, policy: Policy) -> Floor:
    """The noise floor of a timing method; an unlisted method gets the widest one."""
    floor: Floor = getattr(policy.noise, method or "", policy.noise.cpu_wall)
    return floor


def launch_floors(books: Iterable[Book], policy: Policy) -> dict[str, float]:
    """The cost of a one-launch graph in microseconds by GPU: the run's own fastest rows, else the policy's figure."""
    times: dict[str, list[float]] = {}
    for book in books:
        for outcome in book:
            if outcome.timing_method == "cudagraph" and outcome.median_us is not None and outcome.gpu is not None:
                times.setdefault(outcome.gpu, []).append(outcome.median_us)
    return {gpu: floor for gpu, values in sorted(times.items()) if (floor := _launch_floor(gpu, values, policy))}


def _launch_floor(gpu: str, times: list[float], policy: Policy) -> float | None:
    declared = [us for word, us in policy.noise.launch_floor_us.items() if word.lower() in gpu.lower()]
    valid = [time for time in times if 0 < time < math.inf]
    if len(valid) >= FLOOR_ROWS:
        own = float(np.quantile(valid, FLOOR_QUANTILE))
        # Far from the known floor, the fastest rows are long kernels or void graphs and show nothing.
        return own if not declared or 0.5 * declared[0] < own < 2 * declared[0] else declared[0]
    return declared[0] if declared else None


def near_floor(outcome: AnyOutcome | None, floors: Mapping[str, float], policy: Policy) -> bool:
    """Whether a row's time is mostly launch floor: the row says so itself, or it is a one-launch graph near it."""
    if outcome is None or outcome.median_us is None:
        return False
    if outcome.dispatch_bound is not None or outcome.timing_method != "cudagraph":
        return outcome.dispatch_bound is True
    floor = floors.get(outcome.gpu or "") if outcome.floor_us is None else outcome.floor_us
    return floor is not None and outcome.median_us <= floor * (1 + policy.noise.floor_share)


def estimate(
    pairs: Sequence[Pair], policy: Policy, *, shifts: Mapping[str, float], floors: Mapping[str, float]
) -> list[Estimate]:
    """The estimate of each pair. `shifts` is log(head/base) of the controls by op, where they moved."""
    places = strata([pair.base.time_us or 0.0 for pair in pairs], policy)
    return [
        _one(
            pair, place, policy, shift=0.0 if pair.same_session else shifts.get(pair.shape.op_type, 0.0), floors=floors
        )
        for pair, place in zip(pairs, places, strict=True)
    ]


def _one(pair: Pair, place: int, policy: Policy, *, shift: float, floors: Mapping[str, float]) -> Estimate:
    base, head = pair.base, pair.head
    assert base.time_us is not None and head.time_us is not None and base.outcome is not None
    floor = floor_of(base.outcome.timing_method, policy)
    within = math.log1p(floor.within[place])
    spread = max(_spread(base.outcome), _spread(head.outcome))
    # A moved machine is known only as well as its controls agree: the correction widens the limit by half of itself.
    limit = max(math.log1p(floor.limit[place]), math.log1p(pair.ceiling), spread) + abs(shift) / 2
    log_ratio = math.log(head.time_us) - math.log(base.time_us)
    return Estimate(
        kind="summary",
        log_ratio=log_ratio,
        lo=log_ratio - max(within, spread),
        hi=log_ratio + max(within, spread),
        mde_log=limit + Z_POWER * within / Z_INTERVAL,
        se=within / Z_INTERVAL,
        within=within,
        limit=limit,
        shift=shift,
        notes=_notes(pair, spread, policy, floors),
    )


def _spread(outcome: AnyOutcome | None) -> float:
    """log(p90/p10) of a row, 0 where it does not say."""
    if outcome is None or outcome.p10_us is None or outcome.p90_us is None:
        return 0.0
    if not (0 < outcome.p10_us <= outcome.p90_us < math.inf):
        return 0.0
    return math.log(outcome.p90_us) - math.log(outcome.p10_us)


def _notes(pair: Pair, spread: float, policy: Policy, floors: Mapping[str, float]) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    if near_floor(pair.base.outcome, floors, policy) and near_floor(pair.head.outcome, floors, policy):
        notes = ("floor_limited",)
    return (*notes, "unstable") if spread > math.log1p(policy.noise.unstable) else notes
