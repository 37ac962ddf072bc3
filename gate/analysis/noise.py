"""The variance of a block: each row's own, moderated by what rows of its kind show (limma style)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

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
    *,
    keys: Sequence[Hashable],
    alone: Sequence[bool],
    variances: Floats,
    dfs: Floats,
    aa: Sequence[float | None],
    minimum: Floats,
) -> list[Prior | None]:
    """The prior of each row: its own group's, else that of all rows, else the A/A contrasts', else none.

    `keys` group rows (op and time stratum); `aa` is each row's A/A variance; `minimum` its smallest believed variance.
    A row that is `alone` takes its own A/A contrasts only, so that nothing measured later of others changes what is
    said of it.
    """
    known = np.maximum(np.array([np.nan if value is None else value for value in aa]), minimum)
    result: list[Prior | None] = [None] * len(keys)
    groups: dict[Hashable, list[int]] = {}
    for index, (key, is_alone) in enumerate(zip(keys, alone, strict=True)):
        if not is_alone:
            groups.setdefault(key, []).append(index)
        elif not np.isnan(known[index]):
            result[index] = Prior(variance=float(known[index]), df=AA_PRIOR_DF)
    small: list[int] = []
    for members in groups.values():
        if len(members) < ENOUGH_ROWS:
            small += members
            continue
        for index, prior in zip(members, _of_group(np.array(members), variances, dfs, known, minimum), strict=True):
            result[index] = prior
    if small:
        together = np.flatnonzero(~np.array(alone))
        found = dict(zip(together.tolist(), _of_group(together, variances, dfs, known, minimum), strict=True))
        for index in small:
            result[index] = found[index]
    return result


def _of_group(
    members: NDArray[np.int64], variances: Floats, dfs: Floats, known: Floats, minimum: Floats
) -> list[Prior | None]:
    """The priors of some rows from their own variances.

    Rows differ in noise, and a row's A/A contrasts tell of its own: where they predict the variances better than one
    figure for all does (more prior degrees of freedom), each row's prior follows its contrasts.
    """
    least = minimum[members]
    v, df, aa = np.maximum(variances[members], least), dfs[members], known[members]
    told = ~np.isnan(aa)
    usual = float(np.median(aa[told])) if told.any() else None
    if len(members) < ENOUGH_ROWS:
        return [
            None if usual is None else Prior(variance=usual if np.isnan(own) else own, df=AA_PRIOR_DF)
            for own in aa.tolist()
        ]
    flat = fit_prior(v, df)
    if told.all():
        trend = fit_prior(v / aa, df)
        if trend.df > flat.df:
            return [Prior(variance=max(trend.variance * own, own), df=trend.df) for own in aa.tolist()]
    return [Prior(variance=max(flat.variance, usual or 0.0, float(least.min())), df=flat.df)] * len(members)


def moderate(
    *, variances: Floats, dfs: Floats, prior: Sequence[Prior | None], minimum: Floats
) -> tuple[Floats, Floats]:
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
