"""Knows how a lasting change is told from noise: PELT finds where a series may split, a rank test says if it did.

PELT (Killick, Fearnhead, Eckley 2012) is that of `ruptures`. Apache Otava does the same with other means; it is not
used because it pins NumPy, and brings clients of BigQuery, PostgreSQL and Slack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from gate.model.history import Noise

Floats = NDArray[np.float64]
# A change must last so many runs before it is told, and there must be as many before it.
LEAST_RUNS = 5
# The penalty of a split: so many times the noise's variance times log(n); 2 is the Bayesian information criterion.
PENALTY = 4.0
# Chance of a false change in a series, over all places where it might be.
ALPHA = 1e-3
# Smaller changes are not told, however sure they are.
LEAST_EFFECT = 0.01
# Noise is never believed to be smaller than this (a fraction of the time).
LEAST_SD = 5e-4
_MAD = 1.4826
_Z90 = 1.2815515655446004


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """A change from run `at` on: log of the time after over before, and the corrected p of the rank test."""

    at: int
    log_ratio: float
    p: float


def noise(logs: Floats) -> Noise:
    """The noise of a series of log times: Q3 + 3 IQR of the adjacent changes (as rustc-perf has it)."""
    if len(logs) <= LEAST_RUNS:
        return Noise(n=len(logs))
    steps = np.abs(np.diff(logs))
    low, high = np.quantile(steps, (0.25, 0.75))
    limit = float(high + 3 * (high - low))
    spread = _MAD * float(np.median(steps))
    return Noise(n=len(logs), limit=math.expm1(limit), detectable=math.expm1(limit + _Z90 * spread))


def splits(logs: Floats, *, least_effect: float = LEAST_EFFECT) -> list[Split]:
    """The lasting changes of a series of log times, in order; none where it is too short to tell.

    PELT proposes on values that are tamed about a running median, so that single disturbed runs propose nothing.
    Of its splits the least sure is dropped until each is sure on the untamed values (Mann-Whitney, two-sided,
    Bonferroni over the places) and larger than `least_effect`.
    """
    if len(logs) < 2 * LEAST_RUNS:
        return []
    ends = _proposed(logs)
    while len(ends) > 2:
        tested = [_tested(logs, ends[index - 1 : index + 2]) for index in range(1, len(ends) - 1)]
        sure = [one.p <= ALPHA and abs(one.log_ratio) >= math.log1p(least_effect) for one in tested]
        if all(sure):
            return tested
        worst = max(range(len(tested)), key=lambda index: (not sure[index], tested[index].p))
        del ends[worst + 1]
    return []


def _proposed(logs: Floats) -> list[int]:
    """0, every place where PELT would split, and the number of runs."""
    import ruptures

    sd = max(LEAST_SD, _MAD * float(np.median(np.abs(np.diff(logs)))) / math.sqrt(2))
    search = ruptures.KernelCPD(kernel="linear", min_size=LEAST_RUNS).fit(_tamed(logs, 3 * sd).reshape(-1, 1))
    return [0, *map(int, search.predict(pen=PENALTY * sd**2 * math.log(len(logs))))]


def _tamed(logs: Floats, most: float) -> Floats:
    middle = _running_median(logs)
    return np.clip(logs, middle - most, middle + most)


def _running_median(logs: Floats, half: int = 3) -> Floats:
    padded = np.pad(logs, half, mode="edge")
    median: Floats = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
    return median


def _tested(logs: Floats, around: Sequence[int]) -> Split:
    """The split in the middle of `around`: where its two segments start, part and end."""
    from scipy import stats

    start, at, end = around
    before, after = logs[start:at], logs[at:end]
    p = float(stats.mannwhitneyu(before, after).pvalue)
    return Split(at=at, log_ratio=float(np.median(after) - np.median(before)), p=min(1.0, p * len(logs)))
