"""Which runs never become the baseline, each with the line that says why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gate.ledgers.promotion import commit_fault
from gate.model.outcome import Results
from tests.analysis import build
from tests.commands.baseline_desk import LEDGER, LENIENT, MIXED, NO_TIME, PARTIAL, SHA, Desk, edited, head, own


@pytest.mark.parametrize("name", [*PARTIAL, *MIXED])
def test_rows_that_are_partial_mixed_or_of_a_dirty_tree_are_refused(desk: Desk, name: str) -> None:
    change, words = {**PARTIAL, **MIXED}[name]
    base = build.run(LEDGER, seed=1)
    # In the base too, so that the judge has nothing to say of what is no difference.
    base = base if name in PARTIAL else edited(base, change)
    source = desk.measured("run", edited(head(), change), base)
    policy = desk.folder / "policy.toml"
    policy.write_text(LENIENT)
    assert desk.judged(source, "--policy", str(policy)) == 0, "the gate lets it pass; the baseline must not"
    before = desk.files()
    code, error = desk.promote(source)
    assert code == 1
    assert words in error
    assert desk.files() == before, "a refusal writes nothing"


@pytest.mark.parametrize(
    ("results", "reason", "words"),
    [
        (head(factors={0: 1.5}), "confirmed_regression", "regressed: 1 row got slower"),
        (edited(head(), own(1, benchmark_status="failed", **NO_TIME)), "newly_failed", "newly_failed: 1 row fails"),
        (edited(head(), own(1, benchmark_status="incorrect", correct=False)), "newly_incorrect", "newly_incorrect: 1"),
    ],
)
def test_a_regressed_run_never_becomes_the_baseline(desk: Desk, results: Results, reason: str, words: str) -> None:
    source = desk.measured("run", results, build.run(LEDGER, seed=1))
    again = desk.measured("again", head(8, factors={0: 1.5}), build.run(LEDGER, seed=7))
    assert desk.judged(source, "--confirm", str(again / "base"), str(again / "head")) == 1
    before = desk.files()
    code, error = desk.promote(source)
    assert code == 1 and desk.files() == before
    assert f"decision: the run blocked: {reason}" in error
    assert f"rmsnorm: {words}" in error


@pytest.mark.parametrize("verdict", ["regressed", "missing", "not_comparable", "not_run", "waived"])
def test_no_such_row_gets_in_even_where_the_gate_says_pass(desk: Desk, verdict: str) -> None:
    source = desk.passed()
    path = source / "decision" / "decision.json"
    decision = json.loads(path.read_text())
    decision["rows"][0]["verdict"] = verdict
    path.write_text(json.dumps(decision))
    before = desk.files()
    code, error = desk.promote(source)
    assert code == 1 and desk.files() == before
    assert f"rmsnorm: {verdict}: 1 row " in error


def test_a_waived_row_gets_in_only_when_a_person_says_so(desk: Desk) -> None:
    source = desk.passed()
    path = source / "decision" / "decision.json"
    decision = json.loads(path.read_text())
    decision["rows"][0]["verdict"] = "waived"
    path.write_text(json.dumps(decision))
    assert desk.promote(source, "--accept-waived")[0] == 0
    assert desk.lines()[0].waived == (LEDGER.shapes[0].shape_id,)


OTHER: dict[str, tuple[dict[str, Any], str]] = {
    "GPU": ({"gpu": "AMD Instinct MI355X"}, "other GPU than the stored baseline: AMD Instinct MI350X there"),
    "method": ({"timing_method": "cudagraph"}, "other timing method than the stored baseline: graph_slope there"),
    "cache": ({"cache_state": "hot"}, "other cache state than the stored baseline: cold_hbm there, hot here"),
}


@pytest.mark.parametrize("name", OTHER)
def test_a_run_of_another_gpu_or_method_does_not_replace_the_baseline(desk: Desk, name: str) -> None:
    assert desk.promote(desk.passed())[0] == 0
    fields, words = OTHER[name]
    source = desk.measured("other", head(3, **fields), build.run(LEDGER, seed=1, **fields))
    assert desk.judged(source) == 0
    before = desk.files()
    code, error = desk.promote(source)
    assert code == 1 and words in error and desk.files() == before


@pytest.mark.parametrize(
    ("commit", "words"),
    [(f"{SHA}-dirty", "the tree was dirty"), (f"{SHA}-changed", "the tree was dirty"), ("abc1234", "full hash")],
)
def test_only_a_full_commit_of_a_clean_tree_is_promoted(desk: Desk, commit: str, words: str) -> None:
    code, error = desk.promote(desk.passed(), commit=commit)
    assert code == 1 and words in error
    assert commit_fault(SHA, "") is None


def test_without_a_decision_or_with_that_of_other_results_nothing_is_promoted(desk: Desk) -> None:
    source, other = desk.passed(), desk.passed("other", seed=9)
    before = desk.files()
    code, error = desk.promote(source, decision=desk.folder / "none")
    assert code == 2 and "no decision" in error
    code, error = desk.promote(source, decision=other / "decision")
    assert code == 2 and "the decision is of other results" in error
    (source / "decision" / "decision.json").write_text("{")
    assert desk.promote(source)[0] == 2
    assert desk.promote(desk.folder / "nowhere", decision=other / "decision")[0] == 2
    assert desk.files() == before


def test_a_change_without_a_kernel_promotes_nothing(desk: Desk) -> None:
    from gate.commands import judged
    from gate.commands.artifact_judge import nothing_changed

    judged.write(nothing_changed(), desk.folder / "decision")
    code, error = desk.promote(desk.folder / "intake", decision=desk.folder / "decision")
    assert code == 1 and "no kernel changed" in error


def test_a_decision_on_another_candidate_is_not_that_of_these_results(desk: Desk) -> None:
    source = desk.passed()
    path = source / "decision" / "decision.json"
    decision = json.loads(path.read_text())
    for row in decision["rows"]:
        row["provider"] = "triton"
    path.write_text(json.dumps(decision))
    code, error = desk.promote(source)
    assert code == 2 and "the decision is of other results: sha1:" in error
    decision["rows"][0]["provider"] = "flydsl"
    path.write_text(json.dumps(decision))
    code, error = desk.promote(source)
    assert code == 2 and "the decision does not judge triton on sha1:" in error
