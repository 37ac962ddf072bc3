"""How sure a comparison is: bounds at a level from process pairs, whose scatter is pooled over the bisection."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement

import msgspec

Slower = bool | None


class NoiseModel(msgspec.Struct, frozen=True, kw_only=True):
    """What is believed of the noise before anything is measured.

    `process_sd` is the least standard deviation of log(head/base) between process pairs, worth `prior_df` degrees of
    freedom. `process_share` is the share of a visit's variance that sticks to its process, which blocks of one process
    cannot show (public A/A results: about 40%). Blocks count for at most `block_df` degrees of freedom.
    """

    process_sd: float = 0.003
    prior_df: float = 2.0
    process_share: float = 0.4
    block_df: float = 4.0


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate of log(head/base) with its one-sided lower and upper bounds at one level."""

    estimate: float
    low: float
    high: float
    processes: int
    blocks: int


class Comparison:
    """The process pairs that compare two versions, each a list of the blocks' log ratios."""

    def __init__(self) -> None:
        self.pairs: list[tuple[float, ...]] = []

    def add(self, log_ratios: Sequence[float]) -> None:
        """One more process pair. Raises ValueError for no blocks or a ratio that is not finite."""
        if not log_ratios or not all(map(math.isfinite, log_ratios)):
            raise ValueError(f"log ratios must be finite, got {list(log_ratios)[:4]}")
        self.pairs.append(tuple(log_ratios))

    @property
    def centres(self) -> list[float]:
        """The estimate of each process pair."""
        return [hodges_lehmann(pair) for pair in self.pairs]


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the pairwise means, a value with itself included (Hodges and Lehmann 1963)."""
    return statistics.median((a + b) / 2 for a, b in combinations_with_replacement(values, 2))


def bounds(comparison: Comparison, others: Iterable[Comparison], noise: NoiseModel, *, alpha: float) -> Bounds:
    """The comparison's estimate and its bounds, each wrong with chance `alpha`.

    The variance of a process pair is the largest of the prior's, of what the pairs of all comparisons scatter, and of
    what their blocks scatter, enlarged by the share that sticks to a process: a block is log of two means of two
    visits, so its variance is that of one visit within a process, and a pair adds 2 share / (1 - share) of it.
    """
    everything = [comparison, *others]
    centres = [one.centres for one in everything]
    between = math.fsum((x - statistics.fmean(xs)) ** 2 for xs in centres for x in xs)
    between_df = sum(len(xs) - 1 for xs in centres if xs)
    blocks = [pair for one in everything for pair in one.pairs]
    within = math.fsum((x - statistics.fmean(pair)) ** 2 for pair in blocks for x in pair)
    within_df = sum(len(pair) - 1 for pair in blocks)
    block_variance = within / within_df if within_df else 0.0
    size = statistics.fmean(len(pair) for pair in comparison.pairs)
    sticky = 2 * noise.process_share / (1 - noise.process_share)
    floor = noise.process_sd**2
    shown = (noise.prior_df * floor + between) / (noise.prior_df + between_df)
    variance = max(floor, shown, block_variance * (1 / size + sticky))
    df = noise.prior_df + between_df + min(within_df, noise.block_df)
    own = comparison.centres
    reach = student(1 - alpha, df) * math.sqrt(variance / len(own))
    estimate = statistics.fmean(own)
    return Bounds(
        estimate=estimate,
        low=estimate - reach,
        high=estimate + reach,
        processes=len(own),
        blocks=sum(map(len, comparison.pairs)),
    )


def student(probability: float, df: float) -> float:
    """The quantile of Student's t with `df` degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def slower(found: Bounds, *, above: float, below: float) -> Slower:
    """Whether head is slower: True when more than `above` is established, False when `below` is excluded, else None.

    Both are logarithms of a ratio; where both hold, an established slowdown wins.
    """
    if found.low > above:
        return True
    return False if found.high < below else None
