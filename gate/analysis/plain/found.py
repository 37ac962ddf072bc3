"""The findings of plain shapes: the comparison of stored summaries and the standing, a column at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from gate.analysis import summary, verdicts
from gate.analysis.controls import Controls
from gate.analysis.estimate import strata
from gate.analysis.findings import DIGITS
from gate.analysis.plain.classified import classified
from gate.analysis.plain.columns import Places
from gate.analysis.plain.group import Group, logs
from gate.analysis.plain.sides import Side, of_pairs
from gate.analysis.rows import moved_detail
from gate.analysis.student import Floats
from gate.model.decision import RowFinding, Verdict
from gate.model.outcome import Measured
from gate.model.policy import Policy
from gate.model.shape import Shape


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """As Estimate, of many shapes measured as summaries: all in log units; `ceiling` a fraction."""

    log_ratio: Floats
    spread: Floats
    wide: Floats
    within: Floats
    limit: Floats
    shift: Floats
    mde: Floats
    ceiling: Floats


def findings(
    group: Group, shapes: Sequence[Shape], *, base: Side, head: Side, policy: Policy, controls: Controls
) -> list[RowFinding]:
    """The finding of each shape of the group, in its order."""
    mine = [shapes[number] for number in group.index.tolist()]
    found = _compare(group, mine, base=base, head=head, policy=policy, controls=controls)
    told = _rulings(group, found, base=base, head=head, policy=policy, controls=controls)
    classes = classified(group, mine, head=head, policy=policy)
    detail = moved_detail(controls.shifts.get(group.matrix.op_type, 0.0))
    columns = _columns(group, found, head)
    names = tuple(columns)
    return [
        RowFinding(
            shape_id=shape.shape_id,
            provider=group.matrix.candidate_provider,
            verdict=verdict,
            reasons=reasons,
            op_type=shape.op_type,
            model=shape.model,
            stage=shape.stage,
            dtype=shape.dtype,
            args=shape.args,
            classification=None if category is None else category.name,
            evidence="" if category is None else category.evidence,
            likely_fix="" if category is None else category.likely_fix,
            hot=hot,
            profile=profile,
            weight=shape.weight.value,
            status="ok",
            detail=detail if moved else "",
            suspect=verdict == "inconclusive" and reasons[0] == "above_noise",
            **dict(zip(names, values, strict=True)),
        )
        for shape, (verdict, reasons), (category, hot, profile), moved, values in zip(
            mine, told, classes, (found.shift != 0).tolist(), zip(*columns.values(), strict=True), strict=True
        )
    ]


def _columns(group: Group, found: Compared, head: Side) -> dict[str, list[Any]]:
    """The fields of a finding that are numbers or names of the group's own columns."""
    candidate, kinds = group.candidate, head.columns.kinds
    low, high = found.log_ratio - found.wide, found.log_ratio + found.wide
    return {
        "ratio": _exp(found.log_ratio),
        "ci": list(zip(_exp(low), _exp(high), strict=True)),
        "mde": _rounded([math.expm1(min(value, 700.0)) for value in found.mde.tolist()]),
        "base_us": _rounded(candidate.base_us.tolist()),
        "head_us": _rounded(candidate.head_us.tolist()),
        "speedup_vs_best": _rounded(group.speedup.tolist()),
        "best_baseline": [group.rivals[number] for number in group.best.tolist()],
        "method": [kinds[number].timing_method for number in head.kind(candidate.head).tolist()],
        "ceiling": found.ceiling.tolist(),
    }


def _compare(
    group: Group, shapes: Sequence[Shape], *, base: Side, head: Side, policy: Policy, controls: Controls
) -> Compared:
    mine, op = group.candidate, group.matrix.op_type
    was, now = base.kind(mine.base), head.kind(mine.head)
    places = np.array(strata(mine.base_us.tolist(), policy), dtype=np.int64)
    within, limit = _floors(base.columns.kinds, policy)
    ceiling = np.full(len(shapes), policy.ceilings.ops.get(op, policy.thresholds.slower))
    if policy.ceilings.shapes:
        usual = policy.ceilings.ops.get(op, policy.thresholds.slower)
        ceiling = np.array([policy.ceilings.shapes.get(shape.shape_id, usual) for shape in shapes])
    spread = np.maximum(_spread(base, mine.base), _spread(head, mine.head))
    together = of_pairs(base.columns.kinds, head.columns.kinds, same_session)[was, now]
    shift = np.where(together, 0.0, controls.shifts.get(op, 0.0))
    least = np.maximum(np.maximum(limit[was, places], _each(math.log1p, ceiling)), spread) + np.abs(shift) / 2
    noise = within[was, places]
    return Compared(
        log_ratio=logs(mine.head_us) - logs(mine.base_us),
        spread=spread,
        wide=np.maximum(noise, spread),
        within=noise,
        limit=least,
        shift=shift,
        mde=least + summary.Z_POWER * noise / summary.Z_INTERVAL,
        ceiling=ceiling,
    )


def same_session(one: Measured, other: Measured) -> bool:
    """Whether rows of two kinds were measured interleaved."""
    return one.session_id is not None and one.session_id == other.session_id


def _floors(kinds: Sequence[Measured], policy: Policy) -> tuple[Floats, Floats]:
    """log(1 + floor) by kind and time stratum: what is noise, and what is real."""
    floors = [summary.floor_of(kind.timing_method, policy) for kind in kinds]
    width = len(policy.noise.strata_us) + 1
    within, limit = (
        np.array([[math.log1p(part) for part in getattr(floor, name)] for floor in floors]).reshape(-1, width)
        for name in ("within", "limit")
    )
    return within, limit


def _spread(side: Side, rows: Places) -> Floats:
    return logs(side.columns.of("p90_us")[rows]) - logs(side.columns.of("p10_us")[rows])


def _rulings(
    group: Group, found: Compared, *, base: Side, head: Side, policy: Policy, controls: Controls
) -> list[tuple[Verdict, tuple[str, ...]]]:
    """Verdict and reasons of each shape; both depend on few things, so each combination is told once."""
    moved = found.shift != 0
    own = found.log_ratio - found.shift
    log_ceiling = _each(math.log1p, found.ceiling)
    number = np.select(
        [
            np.minimum(own, found.log_ratio) > found.limit,
            moved,
            own < -found.limit,
            found.spread > math.log1p(policy.noise.unstable),
            own <= np.maximum(found.within, log_ceiling),
        ],
        [0, 1, 2, 3, 4],
        default=5,
    )
    ways = (len(base.columns.kinds), len(head.columns.kinds))
    pair = np.ravel_multi_index((base.kind(group.candidate.base), head.kind(group.candidate.head)), ways)
    keys = np.stack([number, moved.astype(np.int64), pair], axis=1)
    unique, back = np.unique(keys, axis=0, return_inverse=True)
    words: list[tuple[Verdict, tuple[str, ...]]] = []
    for which, has_moved, both in unique.tolist():
        one, two = (int(value) for value in np.unravel_index(both, ways))
        how = verdicts.session_reasons(
            base.columns.kinds[one],
            head.columns.kinds[two],
            moved=bool(has_moved),
            checked=group.matrix.op_type in controls.checked,
        )
        words.append(_RULINGS[which](how))
    return [words[position] for position in back.ravel().tolist()]


Ruled = Callable[[tuple[str, ...]], tuple[Verdict, tuple[str, ...]]]
_RULINGS: tuple[Ruled, ...] = (
    lambda how: ("regressed", ("slower", *how)),
    lambda how: ("inconclusive", how),
    lambda how: ("improved", ("faster", *how)),
    lambda how: ("inconclusive", ("unstable", *how)),
    lambda how: ("unchanged", ("within_noise", *how)),
    lambda how: ("inconclusive", ("above_noise", *how)),
)


def _each(function: Callable[[float], float], values: Floats) -> Floats:
    """The function of each value, as the row-by-row judgement computes it; of few different values."""
    unique, back = np.unique(values, return_inverse=True)
    return np.array([function(value) for value in unique.tolist()])[back.ravel()] if len(values) else values


def _exp(values: Floats) -> list[float]:
    return [float(f"{math.exp(max(min(value, 700.0), -700.0)):.{DIGITS}g}") for value in values.tolist()]


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
