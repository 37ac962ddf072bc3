"""The plain shapes of one op: which they are, and the times of their arms as columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from gate.analysis import best, pairing, physics
from gate.analysis.classify import LAUNCHER_SHARE, LAUNCHER_US
from gate.analysis.plain.columns import Places
from gate.analysis.plain.sides import Mask, Side, of_pairs
from gate.analysis.student import Floats
from gate.model.matrix import Matrix
from gate.model.outcome import Measured
from gate.model.policy import Policy
from gate.model.shape import Shape


class Arms(msgspec.Struct, frozen=True, kw_only=True):
    """One provider on the plain shapes: the rows of base and head, and their times in microseconds."""

    base: Places
    head: Places
    base_us: Floats
    head_us: Floats


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The plain shapes of one op, `index` in the ledger; `best` is the number of each one's incumbent among `rivals`,
    `speedup` its time over the candidate's."""

    matrix: Matrix
    rivals: tuple[str, ...]
    index: Places
    candidate: Arms
    others: tuple[Arms, ...]
    best: Places
    speedup: Floats


def group(
    matrix: Matrix, index: Places, shapes: Sequence[Shape], *, base: Side, head: Side, policy: Policy
) -> Group | None:
    """The plain ones among the ledger's shapes at `index`, all of the matrix's op; None if there can be none."""
    # By name, so that the first of equal times is the incumbent that the row-by-row judgement takes.
    rivals = tuple(sorted(set(matrix.baselines)))
    providers = (matrix.candidate_provider, *rivals)
    if not rivals or len(rivals) < len(matrix.baselines) or not all(p in base.at and p in head.at for p in providers):
        return None
    there = ~(base.odd | head.odd)[index]
    for one in (base, head):
        for provider in providers:
            there &= one.at[provider][index] >= 0
    index = index[there]
    arms = [_arms(base, head, provider, index) for provider in providers]
    kept = _comparable(arms, matrix, rivals, base=base, head=head, policy=policy)
    kept[kept] = _possible(index[kept], shapes, [_chosen(arm, kept) for arm in arms], base, head, policy)
    found = _standing(matrix, rivals, index[kept], [_chosen(arm, kept) for arm in arms])
    calm = _calm(found, head, policy)
    return _standing(
        matrix, rivals, found.index[calm], [_chosen(arm, calm) for arm in (found.candidate, *found.others)]
    )


def _arms(base: Side, head: Side, provider: str, index: Places) -> Arms:
    was, now = base.at[provider][index], head.at[provider][index]
    times = [side.columns.of("median_us")[rows] for side, rows in ((base, was), (head, now))]
    return Arms(base=was, head=now, base_us=times[0], head_us=times[1])


def _chosen(arms: Arms, mask: Mask) -> Arms:
    return Arms(base=arms.base[mask], head=arms.head[mask], base_us=arms.base_us[mask], head_us=arms.head_us[mask])


def _comparable(
    arms: Sequence[Arms], matrix: Matrix, rivals: Sequence[str], *, base: Side, head: Side, policy: Policy
) -> Mask:
    """Shapes whose arms all share clock and cache, with nothing to say against candidate or baselines."""
    old, new = base.columns.kinds, head.columns.kinds
    mine, only = arms[0], len(rivals) == 1
    was, now = base.kind(mine.base), head.kind(mine.head)
    pairs = of_pairs(old, new, lambda a, b: pairing.mismatch(a, b, policy.environment) is None)
    kept: Mask = pairs[was, now] & ~_units_apart(mine)
    against_base = of_pairs(old, new, best.same_clock)
    for name, rival in zip(rivals, arms[1:], strict=True):

        def clean(a: Measured, b: Measured, name: str = name) -> bool:
            return best.same_clock(a, b) and not best.doubts(matrix, name, a, b, only=only)

        kept &= against_base[base.kind(rival.base), now] & of_pairs(new, new, clean)[head.kind(rival.head), now]
    host, time = head.columns.of("host_overhead_us")[mine.head], mine.head_us
    with np.errstate(invalid="ignore"):
        kept &= np.isnan(host) | (host < LAUNCHER_US) | (host < LAUNCHER_SHARE * time)
    return kept


def _units_apart(arms: Arms) -> Mask:
    ratio = arms.head_us / arms.base_us
    apart = np.maximum(ratio, 1 / ratio) / pairing.UNIT_RATIO
    found: Mask = (apart > 0.9) & (apart < 1.1)
    return found


def _possible(
    index: Places, shapes: Sequence[Shape], arms: Sequence[Arms], base: Side, head: Side, policy: Policy
) -> Mask:
    """Shapes all of whose times are above the hardware's larger bound on every GPU of the run."""
    if not policy.physics.enabled or not len(index):
        return np.ones(len(index), dtype=bool)
    gpus = {kind.gpu for side in (base, head) for kind in side.columns.kinds if physics.gpu(kind.gpu)}
    least = np.minimum.reduce([times for arm in arms for times in (arm.base_us, arm.head_us)])
    found = np.ones(len(index), dtype=bool)
    for gpu in gpus:
        bounds = (physics.bound(shapes[number], gpu) for number in index.tolist())
        found &= least >= np.array([0.0 if bound is None else bound.cold_us for bound in bounds])
    return found


def _standing(matrix: Matrix, rivals: tuple[str, ...], index: Places, arms: Sequence[Arms]) -> Group:
    mine, others = arms[0], tuple(arms[1:])
    chosen = np.argmin(np.stack([other.base_us for other in others]), axis=0)
    rival_us = np.stack([other.head_us for other in others])[chosen, np.arange(len(index))]
    return Group(
        matrix=matrix,
        rivals=rivals,
        index=index,
        candidate=mine,
        others=others,
        best=chosen,
        speedup=rival_us / mine.head_us,
    )


def _calm(found: Group, head: Side, policy: Policy) -> Mask:
    """Shapes whose candidate and best baseline are both stable."""
    with np.errstate(over="ignore"):
        spread = head.columns.of("p90_us") / head.columns.of("p10_us")
    rows = np.stack([other.head for other in found.others])[found.best, np.arange(len(found.index))]
    limit = 1 + policy.noise.unstable
    calm: Mask = (spread[found.candidate.head] <= limit) & (spread[rows] <= limit) & np.isfinite(found.speedup)
    return calm


def logs(values: Floats) -> Floats:
    """Natural logarithms, each as `math.log` gives it, which arrays do not promise."""
    return np.array(list(map(math.log, values.tolist())), dtype=np.float64)
