"""The statistics one by one, against figures that can be checked by hand or by scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from gate.analysis import noise
from gate.analysis.arm import of_outcome
from gate.analysis.blocks import _bimodal, _robust_variance, hodges_lehmann
from gate.analysis.estimate import Estimate, Pair
from gate.analysis.multiple import benjamini_hochberg, holm
from gate.analysis.student import inverse_trigamma, quantile, upper_tail
from gate.analysis.trial.ours import NO_CONTROLS
from gate.analysis.verdicts import rule
from gate.model.policy import Policy
from tests.analysis import build


def test_hodges_lehmann_is_the_median_of_the_walsh_averages() -> None:
    assert hodges_lehmann(np.array([[1.0, 2.0, 10.0], [4.0, 4.0, 4.0]])).tolist() == [3.75, 4.0]


def test_hodges_lehmann_resists_one_wild_block() -> None:
    quiet = np.linspace(-0.01, 0.01, 7)
    assert abs(hodges_lehmann(np.array([[*quiet, 5.0]]))[0]) < 0.01


def test_benjamini_hochberg_against_scipy() -> None:
    p = np.array([0.001, 0.011, 0.02, 0.03, 0.2, 0.6])
    expected = stats.false_discovery_control(p) <= 0.05
    assert benjamini_hochberg(p, q=0.05).tolist() == expected.tolist() == [True, True, True, True, False, False]
    assert benjamini_hochberg(np.array([]), q=0.05).tolist() == []


def test_holm_stops_at_the_first_that_fails() -> None:
    assert holm(np.array([0.001, 0.02, 0.004, 0.9]), alpha=0.01).tolist() == [True, False, False, False]
    assert holm(np.array([0.001, 0.003]), alpha=0.01).tolist() == [True, True]


def test_student_against_scipy() -> None:
    df = np.array([3.0, 7.5, 30.0])
    assert upper_tail(np.array([1.0, 2.0, 3.0]), df) == pytest.approx(stats.t.sf([1, 2, 3], df))
    assert quantile(0.975, df) == pytest.approx(stats.t.ppf(0.975, df))


@pytest.mark.parametrize("x", [0.1, 1.0, 7.0, 400.0])
def test_inverse_trigamma(x: float) -> None:
    assert inverse_trigamma(float(special.polygamma(1, x))) == pytest.approx(x)


def test_the_robust_variance_is_plain_without_trimming_and_yuens_with_it() -> None:
    d = np.array([[0.0, 1.0, 2.0, 3.0]])
    variance, df = _robust_variance(d - 1.5, centres=1)
    assert (variance[0], df[0]) == (pytest.approx(np.var(d, ddof=1)), 3.0)
    eight = np.random.default_rng(1).normal(size=(1, 8))
    variance, df = _robust_variance(eight, centres=1)
    winsorised = stats.mstats.winsorize(eight[0], limits=(0.125, 0.125))
    yuen = 7 * np.var(winsorised, ddof=1) / (6 * 5)
    assert (variance[0] / 8, df[0]) == (pytest.approx(yuen), 5.0)


def test_the_prior_recovers_the_usual_variance_and_ignores_wild_rows() -> None:
    rng = np.random.default_rng(5)
    df = np.full(400, 5.0)
    variances = 4e-6 * rng.chisquare(5, size=400) / 5
    variances[:12] *= 10_000
    prior = noise.fit_prior(variances, df)
    assert prior.variance == pytest.approx(4e-6, rel=0.25)
    assert prior.df > 4


def test_moderation_pulls_quiet_rows_up_and_leaves_hypervariable_ones_alone() -> None:
    variances, dfs = np.array([1e-8, 1e-6, 1e-3]), np.array([5.0, 5.0, 5.0])
    prior = noise.Prior(variance=1e-6, df=10.0)
    moderated, df = noise.moderate(variances=variances, dfs=dfs, prior=[prior] * 3, minimum=1e-8)
    assert moderated.tolist() == pytest.approx([(10e-6 + 5e-8) / 15, 1e-6, 1e-3])
    assert df.tolist() == [15.0, 15.0, 5.0]


def test_bimodal_needs_two_groups_of_two() -> None:
    two = [0.0, 0.001, 0.002, 0.3, 0.301, 0.302]
    one_wild = [0.0, 0.001, 0.002, 0.003, 0.004, 0.3]
    assert _bimodal(np.array([two, one_wild])).tolist() == [True, False]


def _tested(seed: int, **fields: object) -> tuple[float, float]:
    """(p against +1%, standard error) of the only row that is truly 1% slower among quiet rows."""
    ledger = build.ledger(12)
    base = build.run(ledger, seed=seed, **fields)  # type: ignore[arg-type]
    head = build.run(ledger, seed=seed + 50_000, factors=dict.fromkeys(range(12), 1.01), **fields)  # type: ignore[arg-type]
    row = build.row(build.decide(ledger, base, head), 3)
    assert row.ci is not None
    assert row.ratio is not None
    return float(row.ratio), float(np.log(row.ci[1] / row.ci[0]))


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    found = [_tested(seed) for seed in range(60)]
    inside = sum(abs(np.log(ratio / 1.01)) <= width / 2 for ratio, width in found)
    # The interval also allows for an offset between processes that this simulation does not have.
    assert 58 <= inside <= 60
    assert np.median([width for _, width in found]) < 0.02


@pytest.mark.parametrize(("n_blocks", "suspect"), [(8, False), (32, True)])
def test_after_the_last_look_a_row_is_named_more_readily(n_blocks: int, suspect: bool) -> None:
    ledger = build.ledger(1)
    (base, head) = (build.run(ledger, seed=seed).outcomes[0] for seed in (1, 2))
    pair = Pair(shape=ledger.shapes[0], base=of_outcome(base), head=of_outcome(head), ceiling=0.01)
    estimate = Estimate(
        kind="blocks", log_ratio=0.02, lo=0.0, hi=0.04, mde_log=0.05, se=0.006, p_slow=0.05, n_blocks=n_blocks
    )
    (ruling,) = rule([pair], [estimate], policy=Policy(), controls=NO_CONTROLS, confirmed={})
    assert ruling.suspect is suspect
