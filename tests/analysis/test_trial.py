"""The trial of rules: sources give the noise they claim, rules do what they say, the judge is quiet on equal code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gate import store
from gate.analysis.trial import kernels, others, source, table
from gate.cli import run
from gate.model.policy import Policy
from tests.analysis import build

RNG = np.random.default_rng


def test_the_simulated_noise_is_the_published_one() -> None:
    made = source.Simulated(source.MI350X, rows=400, seed=1)
    rng = RNG(2)
    found = []
    for row in range(400):
        for _ in range(20):
            one = made.draw(rng, row, [1])
            found.append(abs(np.expm1(one.base[0, 1] - one.base[0, 0])))
    p50, p95 = np.quantile(found, (0.5, 0.95))
    assert p50 == pytest.approx(0.0093, rel=0.15)
    assert p95 == pytest.approx(0.056, rel=0.25)


def test_a_process_keeps_its_offset() -> None:
    made = source.Simulated(source.H200, rows=50, seed=1)
    rng = RNG(2)
    inside, between = [], []
    for row in range(50):
        for _ in range(20):
            centres = made.draw(rng, row, [8, 8]).base.mean(axis=1).reshape(2, 8)
            inside.append(centres.var(axis=1, ddof=1).mean())
            between.append(centres.mean(axis=1).var(ddof=1))
    # 40% of a visit's variance: two visits a block halve what is inside a process.
    assert np.mean(between) > 5 * np.mean(inside) / 8


def test_recorded_blocks_are_drawn_again_with_their_arms_swapped_at_random() -> None:
    ledger = build.ledger(3)
    base, head = build.run(ledger, seed=1, noise=1e-5), build.run(ledger, seed=2, factors={0: 2.0}, noise=1e-5)
    recorded = source.Recorded(base, head, name="r")
    assert len(recorded.times_us) == 12
    rng = RNG(1)
    differences = [float((one.head - one.base).mean()) for one in (recorded.draw(rng, 0, [4]) for _ in range(40))]
    assert {round(value, 2) for value in differences} == {0.69, -0.69}


def seen(head_factor: float, *, rows: int = 6, base_us: float = 100.0, noise: float = 0.001) -> others.Seen:
    rng = RNG(3)

    def made(n: int, factor: float = 1.0) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return base_us * factor * np.exp(rng.normal(scale=noise, size=(rows, n)))

    return others.Seen(base=made(15), head=made(15, head_factor), again=made(15), history=made(20))


FLAGGED: list[tuple[str, float, bool]] = [
    ("ratio > 1.05", 1.06, True),
    ("ratio > 1.05", 1.04, False),
    ("> 15% and > 10 us", 1.2, True),
    ("> 20% and > 10 us", 1.18, False),
    ("max(3%, A/A, spread), A/B/A", 1.05, True),
    ("max(3%, A/A, spread), A/B/A", 1.02, False),
    ("fail at 1.15 (warn at 1.10)", 1.12, False),
    ("modified z > 3 over MAD, > 5%", 1.06, True),
    ("two rows or more < 0.9x", 1.2, True),
    ("Mann-Whitney p < 0.002, > 10%", 1.12, True),
    ("Mann-Whitney p < 0.002, > 10%", 1.05, False),
    ("benchstat, p < 0.05", 1.01, True),
    ("prediction interval on history", 1.01, True),
    ("Q3 + 3 IQR of history", 1.02, True),
]


@pytest.mark.parametrize(("name", "factor", "flagged"), FLAGGED)
def test_other_rules_flag_what_they_say(name: str, factor: float, flagged: bool) -> None:
    rule = next(other for other in others.OTHERS if other.name == name)
    assert rule.flags(seen(factor)).tolist() == [flagged] * 6
    assert not rule.flags(seen(0.9)).any()


def test_absolute_floors_hide_short_kernels_and_two_rows_hide_one() -> None:
    by_name = {other.name: other for other in others.OTHERS}
    assert not by_name["> 15% and > 10 us"].flags(seen(3.0, base_us=4.0)).any()
    assert not by_name["two rows or more < 0.9x"].flags(seen(3.0, rows=1)).any()


def test_mann_whitney_against_scipy() -> None:
    rng = RNG(4)
    base, head = rng.normal(size=(5, 15)), rng.normal(size=(5, 15)) + 0.5
    expected = stats.mannwhitneyu(base, head, axis=1, method="asymptotic").pvalue
    assert others.mann_whitney_p(base, head) == pytest.approx(expected)


def test_clopper_pearson_against_scipy() -> None:
    for hits, n in ((0, 200), (3, 200), (200, 200)):
        exact = stats.binomtest(hits, n).proportion_ci(method="exact")
        assert table.clopper_pearson(hits, n) == pytest.approx((exact.low, exact.high))


def test_equal_code_stays_green_and_a_slow_row_is_found() -> None:
    made = source.Simulated(source.H200, rows=60, seed=5)
    trial = table.run(made, Policy(), commits=12, power_commits=3, factors=(1.05,), visit_ms=2.0, seed=5)
    ours = trial.results[0]
    assert (ours.rule, ours.red_commits, ours.false_flags) == (table.OURS, 0, 0)
    assert sum(ours.found["1.05"]) == sum(ours.tried["1.05"]) == 15
    assert trial.mde[table.OURS] == (pytest.approx(0.05),) * 5
    again = table.run(made, Policy(), commits=12, power_commits=3, factors=(1.05,), visit_ms=2.0, seed=5)
    assert again == trial


def test_the_verb_prints_and_writes_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = build.ledger(6)
    for name, seed in (("base", 1), ("head", 2)):
        store.write_jsonl(tmp_path / f"{name}.jsonl", build.run(ledger, seed=seed).outcomes)
    given = ["--commits", "2", "--power-commits", "1", "--out", str(tmp_path)]
    session = ["--session", str(tmp_path / "base.jsonl"), str(tmp_path / "head.jsonl")]
    assert run(["selftest", *session, *given]) == 0
    shown = capsys.readouterr().out
    assert "recorded session base.jsonl: 24 kernels; 2 identical commits" in shown
    assert "gate: looks, then confirmation" in shown
    written = json.loads((tmp_path / "selftest.json").read_text())
    assert written[0]["results"][0]["commits"] == 2
    assert written[0]["kernels"]["tries"] == 40
    assert "every kernel slowed by 2%, 40 times each: found 95% or more of 24 of 24 kernels" in shown


def test_a_session_without_blocks_cannot_be_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.write_jsonl(tmp_path / "x.jsonl", build.run(build.ledger(2), seed=1, k=None).outcomes)
    assert run(["selftest", "--session", str(tmp_path / "x.jsonl"), str(tmp_path / "x.jsonl")]) == 2
    assert "no row has blocks_us in both files" in capsys.readouterr().err


def test_every_kernel_is_tried_as_often_as_asked() -> None:
    kernels_of = source.Simulated(source.H200, rows=23, seed=5)
    power = kernels.each_kernel(kernels_of, Policy(), factor=1.05, tries=2, seed=5)
    assert (len(power.found), power.tries) == (23, 2)
    assert power.at_least(0.95) == sum(hits == 2 for hits in power.found) >= 22
    none = kernels.each_kernel(kernels_of, Policy(), factor=1.0, tries=2, seed=5)
    assert (sum(none.found), none.at_least(0.95)) == (0, 0)
