"""Lasting changes: what is found and when, and how rarely a flat series gives one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from gate.history.changes import LEAST_RUNS, noise, splits

pytest.importorskip("ruptures")
Logs = NDArray[np.float64]
# Relative noise from run to run. The heavy tails are those of public one-launch MI350X results: |ratio - 1| of equal
# code has p50 0.93%, p90 4%, p99 10.7%.
NOISES: dict[str, Callable[[Generator, int], Logs]] = {
    "H200 slope": lambda rng, n: rng.normal(0, 0.003, n),
    "one percent": lambda rng, n: rng.normal(0, 0.01, n),
    "MI350X one launch": lambda rng, n: rng.standard_t(2, n) * 0.0093 / 0.816 / 2**0.5,
    "disturbed runs": lambda rng, n: rng.normal(0, 0.003, n) + (rng.random(n) < 0.03) * rng.normal(0.05, 0.03, n),
    "two modes": lambda rng, n: rng.normal(0, 0.002, n) + 0.02 * (rng.random(n) < 0.5),
}


@pytest.mark.parametrize("kind", NOISES)
def test_two_hundred_flat_series_give_no_change(kind: str) -> None:
    rng = np.random.default_rng(7)
    assert sum(bool(splits(4.6 + NOISES[kind](rng, 120))) for _ in range(200)) == 0


@pytest.mark.parametrize("kind", NOISES)
def test_a_step_of_five_percent_is_found_where_it_is(kind: str) -> None:
    rng = np.random.default_rng(8)
    near = 0
    for _ in range(40):
        logs = 4.6 + NOISES[kind](rng, 60)
        logs[40:] += np.log(1.05)
        found = splits(logs)
        near += len(found) == 1 and abs(found[0].at - 40) <= 2 and abs(np.expm1(found[0].log_ratio) - 0.05) < 0.03
    assert near >= 38


@pytest.mark.parametrize(("kind", "latest"), [("H200 slope", 7), ("one percent", 10), ("MI350X one launch", 14)])
def test_a_drift_of_one_percent_a_run_is_found_while_it_goes_on(kind: str, latest: int) -> None:
    rng = np.random.default_rng(9)
    for _ in range(20):
        logs = 4.6 + NOISES[kind](rng, 60)
        logs[40:] += np.log(1.01) * np.arange(1, 21)
        told = next(run for run in range(1, 21) if splits(logs[: 40 + run]))
        assert 3 <= told <= latest, "the split may lie before the first step"


def test_a_faster_series_and_several_changes_are_told_with_their_sign() -> None:
    rng = np.random.default_rng(1)
    logs = rng.normal(0, 0.003, 90)
    logs[30:] += np.log(1.2)
    logs[60:] -= np.log(1.1)
    found = splits(logs)
    assert [one.at for one in found] == [30, 60]
    assert np.exp([one.log_ratio for one in found]) == pytest.approx([1.2, 1 / 1.1], rel=0.01)
    assert all(one.p < 1e-6 for one in found)


def test_changes_smaller_than_asked_for_are_not_told_however_sure() -> None:
    logs = np.random.default_rng(2).normal(0, 0.0006, 200)
    logs[100:] += np.log(1.005)
    assert splits(logs) == []
    (found,) = splits(logs, least_effect=0.004)
    assert found.at == 100


@pytest.mark.parametrize("n", [0, 1, 5, 9])
def test_a_short_series_says_nothing(n: int) -> None:
    assert splits(np.linspace(0, 1, n)) == []


def test_one_disturbed_run_or_four_are_no_lasting_change() -> None:
    logs = np.random.default_rng(3).normal(0, 0.003, 60)
    for first in (20, 56):
        disturbed = logs.copy()
        disturbed[first : first + 4] += 0.3
        assert splits(disturbed) == [], first


def test_a_series_without_any_noise_has_no_change_and_with_a_step_one() -> None:
    logs = np.zeros(40)
    assert splits(logs) == []
    logs[20:] = 0.1
    (found,) = splits(logs)
    assert (found.at, round(found.log_ratio, 9)) == (20, 0.1)


def test_noise_is_q3_and_three_times_the_iqr_of_the_adjacent_changes() -> None:
    steps = np.array([1, -2, 3, -4, 5, -6, 7, -8.0]) / 100
    found = noise(np.concatenate(([0.0], np.cumsum(steps))))
    # |steps| are 1 to 8 percent: Q1 = 2.75, Q3 = 6.25 (linear between order statistics).
    assert found.n == 9
    assert found.limit == pytest.approx(np.expm1((6.25 + 3 * 3.5) / 100))
    assert found.detectable is not None and found.limit is not None and found.detectable > found.limit


def test_a_slowdown_as_large_as_detectable_exceeds_the_limit_nine_times_in_ten() -> None:
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(400):
        logs = rng.normal(0, 0.005, 200)
        known = noise(logs[:-1])
        assert known.limit is not None and known.detectable is not None
        step = logs[-1] + np.log1p(known.detectable) - logs[-2]
        seen += step > np.log1p(known.limit)
    assert 0.86 < seen / 400 < 0.94


def test_few_runs_have_no_noise_to_speak_of() -> None:
    assert noise(np.zeros(LEAST_RUNS)).limit is None
    assert noise(np.zeros(LEAST_RUNS + 1)).limit == 0.0
