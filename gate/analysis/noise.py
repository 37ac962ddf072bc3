"""The variance of a block: each row's own, moderated by what rows of its kind show (limma style)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np

from gate.analysis.student import Floats, digamma, inverse_trigamma, trigamma

# Rows a group needs before their variances say what is usual for the group.
ENOUGH_ROWS = 8
# A prior is never trusted more than this many blocks, nor an A/A prior more than four.
MAX_PRIOR_DF = 20.0
AA_PRIOR_DF = 4.0
# A row whose variance exceeds the usual one this improbably stands on its own (robust limma's idea).
HYPERVARIABLE = 0.001


class Prior(msgspec.Struct, frozen=True, kw_only=True):
    """The usual variance of one block's log ratio, and how many degrees of freedom that knowledge is worth."""

    variance: float
    df: float


def fit_prior(variances: Floats, dfs: Floats) -> Prior:
    """Prior from the rows' variances: scaled inverse chi-square by moments of log variance (Smyth 2004, section 6.2).

    The logs are winsorised by 10% on each side, so that a few wild rows do not stretch the prior.
    """
    usable = variances > 0
    v, f = variances[usable], dfs[usable]
    e = np.log(v) - digamma(f / 2) + np.log(f / 2)
    low, high = np.quantile(e, (0.1, 0.9))
    e = np.clip(e, low, high)
    excess = float(np.var(e, ddof=1) - np.mean(trigamma(f / 2)))
    if excess <= 0:
        return Prior(variance=float(math.exp(np.mean(e))), df=MAX_PRIOR_DF)
    df = 2 * inverse_trigamma(excess)
    centre = float(np.mean(e)) + float(digamma(df / 2)) - math.log(df / 2)
    return Prior(variance=math.exp(centre), df=min(df, MAX_PRIOR_DF))


def priors(
    *, keys: Sequence[Hashable], variances: Floats, dfs: Floats, aa: Sequence[float | None], minimum: float
) -> list[Prior | None]:
    """The prior of each row: its own group's, else that of all rows, else the A/A contrasts', else none.

    `keys` group rows (op and time stratum); `aa` is each row's A/A variance; `minimum` the smallest believed variance.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    everything = _prior_of(range(len(keys)), variances, dfs, aa, minimum)
    result: list[Prior | None] = [None] * len(keys)
    for members in groups.values():
        prior = _prior_of(members, variances, dfs, aa, minimum) if len(members) >= ENOUGH_ROWS else everything
        for index in members:
            result[index] = prior
    return result


def _prior_of(
    members: Sequence[int] | range, variances: Floats, dfs: Floats, aa: Sequence[float | None], minimum: float
) -> Prior | None:
    chosen = np.asarray(members)
    contrasts = [value for value in (aa[index] for index in members) if value is not None]
    usual = float(np.median(contrasts)) if contrasts else None
    if np.count_nonzero(variances[chosen] > 0) >= ENOUGH_ROWS:
        fitted = fit_prior(variances[chosen], dfs[chosen])
        return Prior(variance=max(fitted.variance, usual or 0.0, minimum), df=fitted.df)
    if usual is not None:
        return Prior(variance=max(usual, minimum), df=AA_PRIOR_DF)
    return None


def moderate(*, variances: Floats, dfs: Floats, prior: Sequence[Prior | None], minimum: float) -> tuple[Floats, Floats]:
    """Moderated variances and their degrees of freedom; hypervariable rows keep their own."""
    from scipy import special

    none = Prior(variance=1.0, df=0.0)
    s0 = np.array([(p or none).variance for p in prior])
    d0 = np.array([(p or none).df for p in prior])
    mixed = (d0 * s0 + dfs * variances) / (d0 + dfs)
    with np.errstate(divide="ignore", invalid="ignore"):
        wild = (d0 > 0) & (special.fdtrc(dfs, np.maximum(d0, 1.0), variances / s0) < HYPERVARIABLE)
    keep = wild | (d0 == 0)
    return np.maximum(np.where(keep, variances, mixed), minimum), np.where(keep, dfs, d0 + dfs)
