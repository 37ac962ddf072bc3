"""Which of many p-values stand: Benjamini-Hochberg for the screen, Holm for the confirmation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gate.analysis.student import Floats


def benjamini_hochberg(p: Floats, *, q: float) -> NDArray[np.bool_]:
    """Which hypotheses are rejected at false discovery rate `q` (Benjamini and Hochberg 1995)."""
    n = len(p)
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= q * np.arange(1, n + 1) / n)
    rejected = np.zeros(n, dtype=bool)
    if len(passed):
        rejected[order[: passed[-1] + 1]] = True
    return rejected


def holm(p: Floats, *, alpha: float) -> NDArray[np.bool_]:
    """Which hypotheses are rejected with at most `alpha` chance of any false one (Holm 1979)."""
    n = len(p)
    order = np.argsort(p, kind="stable")
    failed = np.flatnonzero(p[order] > alpha / np.arange(n, 0, -1))
    rejected = np.zeros(n, dtype=bool)
    rejected[order[: failed[0] if len(failed) else n]] = True
    return rejected
