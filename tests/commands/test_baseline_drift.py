"""Runs held against a pinned release: slow drift that no single step shows, and what cannot be compared."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gate import store
from gate.cli import run
from tests.analysis import build
from tests.commands.baseline_desk import LEDGER, NEXT, RELEASE, Desk, drift, head, later, pin


@pytest.fixture
def desk(desk: Desk) -> Desk:
    assert desk.promote(desk.passed())[0] == 0
    return desk


def test_the_same_speed_is_no_drift_even_on_a_slower_machine(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    assert drift(desk, later(desk, "same")) == (0, "")
    assert drift(desk, later(desk, "warm", every=1.10)) == (0, ""), "the controls moved as well"
    assert " ok " in desk.out


def test_an_op_that_is_six_percent_slower_has_drifted_though_a_row_alone_would_not_show_it(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    everywhere = dict.fromkeys(range(6), 1.055)
    code, error = drift(desk, later(desk, "slow", factors=everywhere))
    assert code == 1
    assert "rmsnorm: drifted: 6 rows together take 1.05" in error and f"release {RELEASE}, the limit is 1.050x" in error
    assert "beyond their limit" not in error
    code, error = drift(desk, later(desk, "masked", factors=everywhere, every=0.95))
    assert code == 1, "a faster machine does not hide it"
    assert drift(desk, later(desk, "less", factors=dict.fromkeys(range(6), 1.03)))[0] == 0


def test_one_row_far_behind_has_drifted_alone_and_is_named(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    code, error = drift(desk, later(desk, "row", factors={5: 1.09}))
    assert code == 1
    assert f"1 of 6 rows beyond their limit against release {RELEASE}, such as {LEDGER.shapes[5].shape_id}" in error
    assert "together" not in error
    # The shortest kernels are noisier from session to session: the policy's floor is their limit.
    assert drift(desk, later(desk, "short", factors={0: 1.09}))[0] == 0


def test_the_policy_sets_the_limits(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    source = later(desk, "slow", factors=dict.fromkeys(range(6), 1.03))
    path = desk.folder / "strict.toml"
    path.write_text("[drift]\nop = 0.02\n")
    assert drift(desk, source)[0] == 0
    assert drift(desk, source, "--policy", str(path))[0] == 1
    path.write_text("[drift]\noops = 0.02\n")
    assert drift(desk, source, "--policy", str(path))[0] == 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gpu": "AMD Instinct MI355X"}, "none in the same way on the same kind of GPU"),
        ({"timing_method": "cudagraph"}, "none in the same way on the same kind of GPU"),
        ({"cache_state": "hot"}, "none in the same way on the same kind of GPU"),
        ({"rivals": {}}, "fewer than 2 untouched baselines were measured in both"),
    ],
)
def test_what_cannot_be_compared_is_no_verdict_and_never_green(desk: Desk, fields: dict[str, Any], words: str) -> None:
    assert pin(desk)[0] == 0
    code, error = drift(desk, later(desk, "other", **fields))
    assert code == 2 and words in error


def test_the_results_that_were_pinned_are_told_to_be_those_and_are_no_verdict(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    code, error = drift(desk, desk.folder / "run")
    session = head().outcomes[0].session_id
    assert code == 2 and error.count("\n") == 1 and "untouched" not in error
    assert f"these are the release's own results, of session {session}: there is nothing to compare" in error
    code, error = drift(desk, desk.measured("other", head(9, NEXT)))
    assert code == 2 and f"measured in the release's own session {session}" in error and "own results" not in error


def test_without_a_release_nothing_is_said_to_be_fine(desk: Desk) -> None:
    code, error = drift(desk, later(desk, "later"))
    assert code == 2 and "rmsnorm: no release is pinned for this machine" in error
    assert pin(desk)[0] == 0
    code, error = drift(desk, later(desk, "again"), "--release", "v9")
    assert code == 2 and "no op can be held against a release v9" in error


def test_the_release_pinned_last_is_the_one_unless_another_is_named(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    waived = desk.passed("second", seed=3, commit=NEXT, factors=dict.fromkeys(range(6), 1.0))
    assert desk.promote(waived, commit=NEXT)[0] == 0
    argv = ("--ledgers", str(desk.ledgers), "--release", "v0.1-later", "--date", "2026-07-01")
    assert desk.call("baseline", "pin", *argv)[0] == 0
    source = later(desk, "slow", factors=dict.fromkeys(range(6), 1.055))
    assert "release v0.1-later" in drift(desk, source)[1]
    assert f"release {RELEASE}" in drift(desk, source, "--release", RELEASE)[1]
    assert drift(desk, source, "--json")[0] == 1
    (told,) = json.loads(desk.out)
    assert (told["release"], told["state"], told["n"], told["of"]) == ("v0.1-later", "drifted", 6, 6)
    assert 1.05 < told["ratio"] < 1.06 and 0.99 < told["controls"] < 1.01


def test_twenty_steps_of_one_percent_pass_one_by_one_and_the_baseline_stops_at_the_release(desk: Desk) -> None:
    """One row gets 1% slower in each run. Every run passes; the promotion that would move too far is refused."""
    assert pin(desk)[0] == 0
    refused = None
    for step in range(1, 21):
        commit = f"{step:040x}"
        slow, before = 1.01**step, 1.01 ** (step - 1)
        base = build.run(LEDGER, seed=100 + step, factors={5: before}, session_id=f"night-{step}")
        night = head(200 + step, commit, factors={5: slow}, session_id=f"night-{step}")
        source = desk.measured(f"night-{step}", night, base)
        assert desk.judged(source) == 0, "no single step is a regression"
        code, error = desk.promote(source, commit=commit)
        if code:
            refused = step
            assert code == 1
            assert "drifted: 1 of 6 rows beyond their limit against release v0.5.0" in error
            assert "--accept-drift takes it over on purpose" in error
            assert desk.promote(source, "--accept-drift", commit=commit)[0] == 0
            break
    assert refused in (6, 7), "1.01 ** 6 is 1.0615, and the row's limit 1.06"


def test_a_run_that_timed_nothing_is_no_verdict(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    nothing: dict[str, Any] = {"benchmark_status": "skipped", "median_us": None, "blocks_us": None}
    source = later(desk, "spared")
    rows = store.read_results(source / "head" / store.RESULTS_FILE).outcomes
    store.write_jsonl(source / "head" / store.RESULTS_FILE, [msgspec.structs.replace(row, **nothing) for row in rows])
    code, error = drift(desk, source)
    assert code == 2 and "0 of its 6 rows: flydsl has no time here" in error


def test_only_the_rows_that_were_timed_count_and_their_number_is_shown(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    source = later(desk, "some", factors={5: 1.09})
    path = source / "head" / store.RESULTS_FILE
    kept = {shape.shape_id for shape in LEDGER.shapes[3:]}
    store.write_jsonl(path, [row for row in store.read_results(path).outcomes if row.shape_id in kept])
    assert drift(desk, source)[0] == 1 and "3 of 6" in desk.out


def test_a_promotion_without_controls_says_that_it_was_held_against_nothing(desk: Desk) -> None:
    assert pin(desk)[0] == 0
    how: dict[str, Any] = {"candidate_commit": NEXT, "rivals": {}, "session_id": "alone"}
    base, night = (build.run(LEDGER, seed=seed, **how) for seed in (31, 32))
    source = desk.measured("alone", night, base)
    assert desk.judged(source) == 0
    code, error = desk.promote(source, commit=NEXT)
    assert code == 0
    assert f"rmsnorm: not held against release {RELEASE}: fewer than 2 untouched baselines" in error


def test_single_ops_of_a_run_are_held_against_the_release(desk: Desk) -> None:
    other = build.ledger(2, op_type="softmax")
    store.write_jsonl(desk.ledgers / "softmax" / store.LEDGER_FILE, other.shapes)
    text = (desk.ledgers / "rmsnorm" / store.MATRIX_FILE).read_text().replace("rmsnorm", "softmax")
    store.write_text(desk.ledgers / "softmax" / store.MATRIX_FILE, text)
    assert run(["ledger", "freeze", str(desk.ledgers)]) == 0
    assert pin(desk)[0] == 0
    source = later(desk, "both")
    path = source / "head" / store.RESULTS_FILE
    rows = [*store.read_results(path).outcomes, *build.run(other, seed=3, candidate_commit=NEXT).outcomes]
    store.write_jsonl(path, rows)
    assert drift(desk, source, "--op", "rmsnorm") == (0, "")
    code, error = drift(desk, source)
    assert code == 0 and "softmax: no release is pinned for this machine" in error
    assert drift(desk, source, "--op", "softmax")[0] == 2
    code, error = drift(desk, source, "--op", "softmax", "--op", "rmsnorm")
    assert code == 2 and error == "softmax: no release is pinned for this machine\n", "it was asked for"
