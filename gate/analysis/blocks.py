"""The paired test: Hodges-Lehmann over the blocks of one session, with a moderated, robust standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from gate.analysis import noise
from gate.analysis.contrast import Contrast, contrasts_of
from gate.analysis.estimate import Estimate, Pair, strata
from gate.analysis.student import Floats, quantile, upper_tail
from gate.model.policy import Policy

# The Hodges-Lehmann estimate has 3/pi of the mean's efficiency for normal data.
EFFICIENCY = 3 / math.pi
TRIM = 0.2
ROBUST_PROCESSES = 5
# What sticks to a process has heavy tails (public A/A results: Student's t with about 3), and few processes do not show
# them. With this many degrees of freedom, judgements of one process pair call no identical commit red (selftest noise).
FEW_PROCESSES_DF = 4.0
# Two speeds: the gap between the groups is this many times the spread inside them, and at least 3%.
BIMODAL_GAPS = 4.0
BIMODAL_LEAST = 0.03


def usable(pair: Pair, policy: Policy) -> bool:
    """Whether a pair can be tested on blocks: one session, enough blocks on both sides."""
    base, head = pair.base.outcome, pair.head.outcome
    if base is None or head is None or not pair.same_session or not base.blocks_us or not head.blocks_us:
        return False
    return min(len(base.blocks_us), len(head.blocks_us)) >= policy.noise.min_blocks


def estimate(pairs: Sequence[Pair], policy: Policy, *, n_tests: int) -> list[Estimate]:
    """The estimate of each pair, in order. `n_tests` is the number of rows screened together (for the MDE)."""
    return of_contrasts(
        contrasts_of(pairs),
        ops=[pair.shape.op_type for pair in pairs],
        times_us=[pair.base.time_us or 0.0 for pair in pairs],
        ceilings=[pair.ceiling for pair in pairs],
        policy=policy,
        n_tests=n_tests,
    )


def of_contrasts(
    contrasts: Sequence[Contrast],
    *,
    ops: Sequence[str],
    times_us: Sequence[float],
    ceilings: Sequence[float],
    policy: Policy,
    n_tests: int,
) -> list[Estimate]:
    """As `estimate`, from block differences; `ops` and `times_us` say which rows share their noise."""
    if not contrasts:
        return []
    centred = _centred(contrasts)
    minimum = np.where(centred.many, max(policy.noise.process_sd, policy.noise.min_sd) ** 2, policy.noise.min_sd**2)
    keys = list(zip(ops, strata(times_us, policy), strict=True))
    aa = [_expected_variance(contrast, policy) for contrast in contrasts]
    prior = noise.priors(
        keys=keys, alone=centred.many.tolist(), variances=centred.variance, dfs=centred.df, aa=aa, minimum=minimum
    )
    s2, df = noise.moderate(variances=centred.variance, dfs=centred.df, prior=prior, minimum=minimum)
    tau2 = np.where(centred.many, 0.0, _process_variance(centred, s2, policy))
    se = np.sqrt(s2 / (EFFICIENCY * centred.k) + tau2 / centred.processes)
    return _finish(contrasts, centred, se=se, df=df, ceilings=np.array(ceilings), policy=policy, n_tests=n_tests)


class Centred(msgspec.Struct, frozen=True, kw_only=True):
    """Per row: the estimate, the variance of one unit with its degrees of freedom, units `k`, processes, the variance
    between process centres (NaN with one process or many), whether the blocks show two speeds, visits a block.

    A unit is a block, or a whole process where there are `many`: their scatter is all there is to know.
    """

    centre: Floats
    variance: Floats
    df: Floats
    k: Floats
    processes: Floats
    spread: Floats
    bimodal: NDArray[np.bool_]
    visits: Floats

    @property
    def many(self) -> NDArray[np.bool_]:
        """Rows of so many processes that these are their units."""
        found: NDArray[np.bool_] = self.processes >= ROBUST_PROCESSES
        return found


def _centred(contrasts: Sequence[Contrast]) -> Centred:
    n = len(contrasts)
    centre, variance, df, spread = (np.full(n, np.nan) for _ in range(4))
    bimodal = np.zeros(n, dtype=bool)
    processes = np.array([len(set(c.process)) if c.process else 1 for c in contrasts], dtype=float)
    for members in _same_design(contrasts):
        d = np.stack([contrasts[index].d for index in members])
        p = int(processes[members[0]])
        centre[members], residual, spread[members] = _centre(d, contrasts[members[0]].process)
        variance[members], df[members] = _robust_variance(residual, centres=1 if p >= ROBUST_PROCESSES else p)
        bimodal[members] = _bimodal(np.stack([contrasts[index].raw for index in members]))
    k = np.where(processes >= ROBUST_PROCESSES, processes, np.array([len(c.d) for c in contrasts], dtype=float))
    visits = np.array([c.visits for c in contrasts], dtype=float)
    return Centred(
        centre=centre, variance=variance, df=df, k=k, processes=processes, spread=spread, bimodal=bimodal, visits=visits
    )


def _same_design(contrasts: Sequence[Contrast]) -> list[list[int]]:
    groups: dict[object, list[int]] = {}
    for index, contrast in enumerate(contrasts):
        groups.setdefault((len(contrast.d), contrast.process), []).append(index)
    return list(groups.values())


def hodges_lehmann(d: Floats) -> Floats:
    """Median of the Walsh averages of each row of `d` (Hodges and Lehmann 1963)."""
    i, j = np.triu_indices(d.shape[1])
    step = max(1, 2_000_000 // len(i))
    parts = [np.median((d[a : a + step, i] + d[a : a + step, j]) / 2, axis=1) for a in range(0, len(d), step)]
    return np.concatenate(parts)


def _centre(d: Floats, process: tuple[int, ...] | None) -> tuple[Floats, Floats, Floats]:
    """Estimate, residuals of the units, and the variance between process centres (NaN where they are the units)."""
    unknown = np.full(len(d), np.nan)
    if process is None:
        centre = hodges_lehmann(d)
        return centre, d - centre[:, None], unknown
    labels = np.array(process)
    own = {label: hodges_lehmann(d[:, labels == label]) for label in sorted(set(process))}
    stacked = np.stack(list(own.values()), axis=1)
    if stacked.shape[1] >= ROBUST_PROCESSES:
        centre = hodges_lehmann(stacked)
        return centre, stacked - centre[:, None], unknown
    residual = d - np.stack([own[label] for label in process], axis=1)
    return stacked.mean(axis=1), residual, stacked.var(axis=1, ddof=1)


def _robust_variance(residual: Floats, *, centres: int) -> tuple[Floats, Floats]:
    """Variance of one unit such that variance / k is Yuen's for a 20% trimmed mean, and its degrees of freedom.

    Each of the `centres` that were taken off costs a unit, of which trimming keeps its share.
    """
    n, k = residual.shape
    cut = int(TRIM * k) if k >= 5 else 0
    kept = k - 2 * cut
    ordered = np.sort(residual, axis=1)
    clipped = np.clip(ordered, ordered[:, [cut]], ordered[:, [k - 1 - cut]])
    freedom = max((k - centres) * (kept - 1) / (k - 1), 1.0)
    sums = ((clipped - clipped.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    return sums * k / (kept * freedom), np.full(n, float(freedom))


def _bimodal(d: Floats) -> NDArray[np.bool_]:
    """Whether the blocks form two tight groups, each of at least two blocks."""
    n, k = d.shape
    if k < 6:
        return np.zeros(n, dtype=bool)
    ordered = np.sort(d, axis=1)
    gaps = np.diff(ordered, axis=1)[:, 1:-1]
    at = gaps.argmax(axis=1) + 1
    rows = np.arange(n)
    gap = gaps[rows, at - 1]
    inside = np.maximum(ordered[rows, at] - ordered[:, 0], ordered[:, -1] - ordered[rows, at + 1])
    two: NDArray[np.bool_] = (gap > BIMODAL_LEAST) & (gap > BIMODAL_GAPS * inside)
    return two


def _expected_variance(contrast: Contrast, policy: Policy) -> float | None:
    """The variance of one unit that the row's own A/A contrasts predict; of a process, with the policy's share."""
    processes = len(set(contrast.process)) if contrast.process else 1
    if contrast.aa is None or processes < ROBUST_PROCESSES:
        return contrast.aa
    share = policy.noise.process_share
    return contrast.aa * (processes / len(contrast.d) + share / (1 - share) * contrast.visits)


def _process_variance(centred: Centred, s2: Floats, policy: Policy) -> Floats:
    """Variance between process pairs of each row of few processes: what blocks of one process cannot show.

    The largest of the policy's floor, the policy's share of a visit's variance (a block averages its visits, which
    share the process), and what this run's processes show, where enough rows were measured by several.
    """
    share = policy.noise.process_share
    declared = np.maximum(policy.noise.process_sd**2, share / (1 - share) * s2 * centred.visits)
    excess = np.maximum(centred.spread - s2 * centred.processes / centred.k, 0.0)
    seen = ~np.isnan(excess)
    if np.count_nonzero(seen) < noise.ENOUGH_ROWS:
        return declared
    shown: Floats = np.maximum(declared, np.median(excess[seen] / s2[seen]) * s2)
    return shown


def _finish(
    contrasts: Sequence[Contrast],
    centred: Centred,
    *,
    se: Floats,
    df: Floats,
    ceilings: Floats,
    policy: Policy,
    n_tests: int,
) -> list[Estimate]:
    centre, margin = centred.centre, np.log1p(ceilings)
    p_slow = upper_tail((centre - margin) / se, df)
    alone = np.where(centred.many, df, np.minimum(df, FEW_PROCESSES_DF))
    p_alone = upper_tail((centre - margin) / se, alone)
    p_fast = upper_tail((-centre - math.log1p(policy.thresholds.slower)) / se, df)
    half = quantile(1 - (1 - policy.screen.interval) / 2, df) * se
    mde = margin + (quantile(1 - row_alpha(policy, n_tests), df) + quantile(policy.screen.power, df)) * se
    columns = (centre, half, mde, se, p_slow, p_alone, p_fast, centred.bimodal)
    return [
        Estimate(
            kind="blocks",
            log_ratio=c,
            lo=c - h,
            hi=c + h,
            mde_log=m,
            se=s,
            p_slow=slow,
            p_alone=lone,
            p_fast=fast,
            n_blocks=len(contrast.d),
            least=float(contrast.raw.min()),
            most=float(contrast.raw.max()),
            slower=int(np.count_nonzero(contrast.raw > 0)),
            notes=_notes(contrast, two),
        )
        for contrast, c, h, m, s, slow, lone, fast, two in zip(
            contrasts, *(column.tolist() for column in columns), strict=True
        )
    ]


def row_alpha(policy: Policy, n_tests: int) -> float:
    """The level at which a lone slow row among `n_tests` is found: the stricter of screen and confirmation."""
    return min(policy.confirm.alpha, policy.screen.fdr / len(policy.screen.looks) / max(n_tests, 1))


def _notes(contrast: Contrast, two: bool) -> tuple[str, ...]:
    notes = ("bimodal",) if two else ()
    return (*notes, "unequal_blocks") if contrast.surplus else notes
