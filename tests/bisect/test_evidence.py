"""The bounds of a comparison, by hand."""

from __future__ import annotations

import math
import random

import pytest

from gate.bisect.evidence import Comparison, NoiseModel, bounds, hodges_lehmann, slower


def compared(*pairs: list[float]) -> Comparison:
    comparison = Comparison()
    for pair in pairs:
        comparison.add(pair)
    return comparison


def test_hodges_lehmann() -> None:
    assert hodges_lehmann([1.0]) == 1.0
    assert hodges_lehmann([0.0, 0.1, 0.2]) == pytest.approx(0.1)
    assert hodges_lehmann([0.0, 0.0, 0.0, 9.0]) == pytest.approx(0.0)


def test_one_quiet_pair_is_as_good_as_the_prior() -> None:
    found = bounds(compared([0.08] * 4), [], NoiseModel(process_sd=0.003, prior_df=2.0, block_df=4.0), alpha=0.01)
    # Student's t for 2 + 3 degrees of freedom at 99% is 3.365.
    assert found.estimate == pytest.approx(0.08)
    assert found.low == pytest.approx(0.08 - 3.365 * 0.003, abs=1e-5)
    assert found.high == pytest.approx(0.08 + 3.365 * 0.003, abs=1e-5)


def test_what_other_comparisons_scatter_counts() -> None:
    noisy = compared([0.05] * 4, [-0.05] * 4, [0.04] * 4, [-0.04] * 4)
    alone = bounds(compared([0.08] * 4), [], NoiseModel(), alpha=0.01)
    beside = bounds(compared([0.08] * 4), [noisy], NoiseModel(), alpha=0.01)
    assert beside.high - beside.low > 5 * (alone.high - alone.low)


def test_blocks_that_scatter_widen_a_single_pair() -> None:
    found = bounds(compared([0.0, 0.1, -0.1, 0.05]), [], NoiseModel(), alpha=0.01)
    assert found.high - found.low > 0.2


@pytest.mark.parametrize("ratios", [[], [math.nan], [math.inf, 0.0]])
def test_what_is_no_number_is_refused(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        Comparison().add(ratios)


def test_bounds_hold_at_their_level() -> None:
    """Pairs with luck of their own: the one-sided bound at 1% fails in about 1% of trials, and never in 2%."""
    rng, trials, wrong = random.Random(7), 2000, 0
    for _ in range(trials):
        comparison = Comparison()
        for _ in range(3):
            luck = rng.gauss(0.0, 0.01)
            comparison.add([luck + rng.gauss(0.0, 0.008) for _ in range(4)])
        wrong += bounds(comparison, [], NoiseModel(), alpha=0.01).low > 0
    assert wrong <= 0.02 * trials


def test_three_answers() -> None:
    found = bounds(compared([0.08] * 4), [], NoiseModel(), alpha=0.01)
    assert slower(found, above=0.04, below=0.04) is True
    assert slower(found, above=0.2, below=0.2) is False
    assert slower(found, above=0.08, below=0.08) is None
