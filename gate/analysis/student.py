"""Student's t, digamma and trigamma for arrays, from scipy.special alone (scipy.stats loads slowly)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MAX_DF = 1e6


def upper_tail(t: Floats, df: Floats) -> Floats:
    """P(T > t) for Student's t with `df` degrees of freedom."""
    from scipy import special

    result: Floats = special.stdtr(np.minimum(df, MAX_DF), -np.asarray(t))
    return result


def quantile(p: float | Floats, df: Floats) -> Floats:
    """The t with P(T <= t) = p."""
    from scipy import special

    result: Floats = special.stdtrit(np.minimum(df, MAX_DF), np.asarray(p))
    return result


def digamma(x: Any) -> Any:
    """The digamma function."""
    from scipy import special

    return special.digamma(x)


def trigamma(x: Any) -> Any:
    """The trigamma function."""
    from scipy import special

    return special.polygamma(1, x)


def inverse_trigamma(y: float) -> float:
    """The x > 0 with trigamma(x) = y > 0, by Newton steps on 1/trigamma (Smyth 2004, appendix)."""
    from scipy import special

    x = 0.5 + 1.0 / y
    for _ in range(50):
        value = float(special.polygamma(1, x))
        step = value * (1 - value / y) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x
