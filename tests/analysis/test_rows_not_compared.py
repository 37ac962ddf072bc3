"""One fault at a time: rows that are damaged, missing, refused or of another kind, and the verdict they must give."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gate.model.outcome import Results
from gate.model.problem import Problem
from tests.analysis import build

LEDGER = build.ledger()
BASE = build.run(LEDGER, seed=1)
HEAD = build.run(LEDGER, seed=2)
BAD_TIMES: list[dict[str, Any]] = [
    {"median_us": 0.0},
    {"median_us": -3.0},
    {"median_us": float("nan")},
    {"median_us": float("inf")},
    {"median_us": None},
    {"blocks_us": ((3.0, 0.0), (3.0, 3.0))},
    {"blocks_us": ((3.0,), ())},
    {"blocks_us": ((float("nan"), 3.0), (3.0, 3.0))},
]


@pytest.mark.parametrize("fields", BAD_TIMES, ids=str)
@pytest.mark.parametrize("side", ["base", "head"])
def test_an_invalid_time_is_never_green(fields: dict[str, Any], side: str) -> None:
    base = build.edit(BASE, 4, LEDGER, **fields) if side == "base" else BASE
    head = build.edit(HEAD, 4, LEDGER, **fields) if side == "head" else HEAD
    decision = build.decide(LEDGER, base, head)
    row = build.row(decision, 4)
    assert row.verdict == "not_comparable"
    assert "invalid_time" in row.reasons
    assert decision.gate == "no_verdict"


MISMATCHES: list[tuple[dict[str, Any], str]] = [
    ({"timing_method": "eager_event"}, "method_mismatch"),
    ({"timing_method": None}, "method_unknown"),
    ({"cache_state": "hot"}, "cache_mismatch"),
    ({"gpu": "NVIDIA H200"}, "environment_mismatch"),
    ({"gpu": None}, "environment_mismatch"),
    ({"driver_version": "6.15"}, "environment_mismatch"),
    ({"correct": None}, "not_verified"),
    ({"control": True}, "shared_arm"),
    ({"median_us": 0.022, "blocks_us": None}, "unit_mismatch"),
    ({"median_us": 0.022}, "unit_mismatch"),
    ({"median_us": 22.0, "p10_us": 0.021, "p90_us": 0.023}, "unit_mismatch"),
]


@pytest.mark.parametrize(("fields", "code"), MISMATCHES, ids=str)
def test_a_row_that_may_not_be_compared_says_why(fields: dict[str, Any], code: str) -> None:
    decision = build.decide(LEDGER, BASE, build.edit(HEAD, 4, LEDGER, **fields))
    row = build.row(decision, 4)
    assert (row.verdict, row.reasons[0]) == ("not_comparable", code)
    assert decision.gate == "no_verdict"
    assert decision.counts["unchanged"] == 7


STATUS: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
    ({}, {"benchmark_status": "failed"}, "newly_failed", "newly_failed", "block"),
    ({}, {"benchmark_status": "oom"}, "newly_failed", "newly_failed", "block"),
    ({}, {"benchmark_status": "incorrect"}, "newly_incorrect", "newly_incorrect", "block"),
    ({}, {"correct": False, "median_us": 1.0}, "newly_incorrect", "newly_incorrect", "block"),
    ({}, {"benchmark_status": "unsupported"}, "newly_failed", "newly_unsupported", "block"),
    ({}, {"benchmark_status": "skipped"}, "missing", "missing", "no_verdict"),
    ({}, {"benchmark_status": "not_configured"}, "missing", "missing", "no_verdict"),
    ({"benchmark_status": "failed"}, {}, "fixed", "fixed", "pass"),
    ({"benchmark_status": "incorrect"}, {}, "fixed", "fixed", "pass"),
    ({"benchmark_status": "unsupported"}, {}, "new", "no_baseline", "pass"),
    ({"benchmark_status": "failed"}, {"benchmark_status": "failed"}, "not_comparable", "still_failing", "no_verdict"),
    ({"benchmark_status": "unsupported"}, {"benchmark_status": "unsupported"}, "not_run", "unsupported", "pass"),
    ({"benchmark_status": "skipped"}, {"benchmark_status": "skipped"}, "not_run", "skipped", "no_verdict"),
    ({"benchmark_status": "unsupported"}, {"benchmark_status": "failed"}, "newly_failed", "newly_failed", "block"),
]


@pytest.mark.parametrize(("base", "head", "verdict", "code", "gate"), STATUS, ids=str)
def test_statuses(base: dict[str, Any], head: dict[str, Any], verdict: str, code: str, gate: str) -> None:
    decision = build.decide(LEDGER, build.edit(BASE, 4, LEDGER, **base), build.edit(HEAD, 4, LEDGER, **head))
    row = build.row(decision, 4)
    assert (row.verdict, row.reasons[0], decision.gate) == (verdict, code, gate)
    assert sum(n for name, n in decision.counts.items() if name != "total") == 8


def test_a_missing_row_and_an_empty_head_are_never_green() -> None:
    one = LEDGER.shapes[4].shape_id
    decision = build.decide(LEDGER, BASE, build.drop(HEAD, shape_ids=[one], providers=["flydsl"]))
    assert (build.row(decision, 4).verdict, decision.gate) == ("missing", "no_verdict")
    decision = build.decide(LEDGER, BASE, Results(outcomes=()))
    assert (decision.gate, decision.decision) == ("no_verdict", "blocked")
    assert decision.counts["missing"] == 8
    assert decision.reasons == ("nothing_measured",)


def test_a_first_run_is_not_green() -> None:
    decision = build.decide(LEDGER, Results(outcomes=()), HEAD)
    assert (decision.gate, decision.counts["new"]) == ("no_verdict", 8)
    assert "first_run" in decision.reasons


def test_two_ok_rows_of_one_identity_are_not_comparable() -> None:
    again = msgspec.structs.replace(HEAD.outcomes[16], median_us=20.0)
    decision = build.decide(LEDGER, BASE, Results(outcomes=(*HEAD.outcomes, again)))
    assert (build.row(decision, 4).verdict, build.row(decision, 4).reasons) == ("not_comparable", ("duplicate",))
    assert decision.gate == "no_verdict"


def test_the_very_same_row_twice_is_a_duplicate_too() -> None:
    row = build.row(build.decide(LEDGER, BASE, Results(outcomes=(*HEAD.outcomes, HEAD.outcomes[16]))), 4)
    assert (row.verdict, row.reasons) == ("not_comparable", ("duplicate",))


@pytest.mark.parametrize("first", [True, False])
def test_one_ok_row_among_others_counts_wherever_it_stands(first: bool) -> None:
    failed = msgspec.structs.replace(HEAD.outcomes[16], benchmark_status="failed", median_us=None)
    rows = (failed, *HEAD.outcomes) if first else (*HEAD.outcomes, failed)
    row = build.row(build.decide(LEDGER, BASE, Results(outcomes=rows)), 4)
    assert row.verdict == "unchanged"


def test_a_refused_row_is_named_and_the_others_are_judged() -> None:
    one = LEDGER.shapes[4].shape_id
    refused = Problem(what="not valid JSON", file="head.jsonl", line=17, shape_id=one, provider="flydsl")
    rest = build.drop(HEAD, shape_ids=[one], providers=["flydsl"])
    decision = build.decide(LEDGER, BASE, Results(outcomes=rest.outcomes, problems=(refused,)))
    assert (build.row(decision, 4).verdict, build.row(decision, 4).reasons) == ("not_comparable", ("refused",))
    assert decision.counts["unchanged"] == 7
    assert (decision.gate, decision.problems) == ("no_verdict", ("head head.jsonl:17: not valid JSON",))


def test_a_refused_line_of_nobody_is_not_green_either() -> None:
    refused = Problem(what="not valid JSON", file="head.jsonl", line=33)
    decision = build.decide(LEDGER, BASE, Results(outcomes=HEAD.outcomes, problems=(refused,)))
    assert (decision.gate, decision.counts["unchanged"]) == ("no_verdict", 8)


def test_a_refused_ledger_row_gives_no_verdict_even_beside_a_regression() -> None:
    broken = msgspec.structs.replace(LEDGER, problems=(Problem(what="wrong id", file="x", line=1),))
    decision = build.decide(broken, BASE, build.run(LEDGER, seed=2, factors={4: 2.0}))
    assert (decision.gate, build.row(decision, 4).verdict) == ("no_verdict", "regressed")


def test_an_impossible_time_is_rejected_on_either_side() -> None:
    big = msgspec.structs.replace(LEDGER, shapes=(build.shape(32768),))
    times = {"flydsl": 190.0, "aiter": 200.0}
    good = Results(outcomes=tuple(build.outcome(big.shapes[0], name, time) for name, time in times.items()))
    fast = build.edit(good, 0, big, median_us=4.0)
    for base, head in ((good, fast), (fast, good)):
        row = build.row(build.decide(big, base, head), 0)
        assert (row.verdict, row.reasons) == ("not_comparable", ("physics",))
        assert "us that AMD Instinct MI350X needs" in row.detail
