"""Rules that other projects use to call a kernel slower, re-coded from their description, on the same measurements."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from gate.analysis.student import Floats, quantile

Flags = NDArray[np.bool_]
SAMPLES = 15
HISTORY = 20


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule may look at, in microseconds: samples (rows, n) of base and head from one process each, a second
    base run `again` (rows, n), and the medians of earlier base runs `history` (rows, runs)."""

    base: Floats
    head: Floats
    again: Floats
    history: Floats

    @property
    def ratio(self) -> Floats:
        """Median of head over median of base."""
        ratio: Floats = np.median(self.head, axis=1) / np.median(self.base, axis=1)
        return ratio

    @property
    def gain_us(self) -> Floats:
        """Median of head minus median of base."""
        gain: Floats = np.median(self.head, axis=1) - np.median(self.base, axis=1)
        return gain


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: its name, which rows it flags, and how many runs of `SAMPLES` samples a row costs it."""

    name: str
    flags: Callable[[Seen], Flags]
    runs: float = 2.0


def _aa_rule(seen: Seen) -> Flags:
    """Head beyond the larger of 3%, the A/A difference and the spread of base."""
    first, second = np.median(seen.base, axis=1), np.median(seen.again, axis=1)
    low, high = np.quantile(seen.base, (0.1, 0.9), axis=1)
    limit = np.maximum.reduce([np.full(len(first), 0.03), np.abs(second / first - 1), high / low - 1])
    flags: Flags = np.median(seen.head, axis=1) / np.minimum(first, second) - 1 > limit
    return flags


def _modified_z(seen: Seen) -> Flags:
    centre = np.median(seen.base, axis=1)
    mad = np.median(np.abs(seen.base - centre[:, None]), axis=1)
    flags: Flags = (0.6745 * (np.median(seen.head, axis=1) - centre) > 3 * mad) & (seen.ratio > 1.05)
    return flags


def _two_rows(seen: Seen) -> Flags:
    """Rows below 0.9x, but only if there are two of them."""
    slow: Flags = 1 / seen.ratio < 0.9
    return slow if np.count_nonzero(slow) >= 2 else np.zeros_like(slow)


def mann_whitney_p(base: Floats, head: Floats) -> Floats:
    """Two-sided p of the Mann-Whitney test by its normal approximation, per row (no ties in continuous times)."""
    n, m = base.shape[1], head.shape[1]
    ranks = np.argsort(np.argsort(np.concatenate([base, head], axis=1), axis=1), axis=1) + 1
    u = ranks[:, n:].sum(axis=1) - m * (m + 1) / 2
    z = (np.abs(u - n * m / 2) - 0.5) / math.sqrt(n * m * (n + m + 1) / 12)
    from scipy import special

    p: Floats = np.minimum(2 * special.ndtr(-z), 1.0)
    return p


def _prediction_interval(seen: Seen) -> Flags:
    """Head above the 99% one-sided prediction interval of earlier runs."""
    h = seen.history.shape[1]
    mean, sd = seen.history.mean(axis=1), seen.history.std(axis=1, ddof=1)
    limit = mean + quantile(0.99, np.array([h - 1.0])) * sd * math.sqrt(1 + 1 / h)
    flags: Flags = np.median(seen.head, axis=1) > limit
    return flags


def _quartiles(seen: Seen) -> Flags:
    first, third = np.quantile(seen.history, (0.25, 0.75), axis=1)
    flags: Flags = np.median(seen.head, axis=1) > third + 3 * (third - first)
    return flags


OTHERS: tuple[Other, ...] = (
    Other(name="ratio > 1.05", flags=lambda seen: seen.ratio > 1.05),
    Other(name="> 15% and > 10 us", flags=lambda seen: (seen.ratio > 1.15) & (seen.gain_us > 10)),
    Other(name="> 20% and > 10 us", flags=lambda seen: (seen.ratio > 1.20) & (seen.gain_us > 10)),
    Other(name="max(3%, A/A, spread), A/B/A", flags=_aa_rule, runs=15.0),
    Other(name="fail at 1.15 (warn at 1.10)", flags=lambda seen: seen.ratio > 1.15),
    Other(name="modified z > 3 over MAD, > 5%", flags=_modified_z),
    Other(name="two rows or more < 0.9x", flags=_two_rows),
    Other(
        name="Mann-Whitney p < 0.002, > 10%",
        flags=lambda seen: (mann_whitney_p(seen.base, seen.head) < 0.002) & (seen.ratio > 1.1),
    ),
    Other(
        name="benchstat, p < 0.05",
        flags=lambda seen: (mann_whitney_p(seen.base, seen.head) < 0.05) & (seen.ratio > 1),
    ),
    Other(name="prediction interval on history", flags=_prediction_interval, runs=1.0),
    Other(name="Q3 + 3 IQR of history", flags=_quartiles, runs=1.0),
)
