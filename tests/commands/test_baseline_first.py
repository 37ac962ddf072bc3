"""The first baseline of a machine, which nothing was judged against: what it may lack, and what it may not."""

from __future__ import annotations

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.model.outcome import Results
from tests.analysis import build
from tests.commands.baseline_desk import (
    LEDGER,
    LENIENT,
    MIXED,
    NEXT,
    NO_TIME,
    PARTIAL,
    SHA,
    Desk,
    drift,
    edited,
    every,
    head,
    own,
    pin,
)


def test_the_first_baseline_of_a_machine_is_one_command(desk: Desk) -> None:
    source = desk.measured("first", head())
    code, error = desk.record(source)
    assert (code, error) == (0, "")
    (line,) = desk.lines()
    assert (line.how, line.decision_sha256, line.policy_sha256) == ("recorded", None, None)
    before = desk.files()
    code, error = desk.record(desk.measured("again", head(3)))
    assert code == 1 and f"a baseline exists, of {SHA[:12]}" in error and desk.files() == before
    assert desk.promote(desk.passed("later", seed=3))[0] == 0


@pytest.mark.parametrize("name", [*PARTIAL, *MIXED])
def test_the_first_baseline_is_as_strict(desk: Desk, name: str) -> None:
    change, words = {**PARTIAL, **MIXED}[name]
    code, error = desk.record(desk.measured("first", edited(head(), change)))
    assert code == 1 and words in error and not desk.place.exists()


def test_a_candidate_may_declare_shapes_it_has_no_kernel_for(desk: Desk) -> None:
    change = own(0, benchmark_status="unsupported", **NO_TIME, correct=None)
    assert desk.record(desk.measured("first", edited(head(), change)))[0] == 0
    (line,) = desk.lines()
    assert (line.timed, line.unsupported) == (5, 1)


def test_another_candidate_can_be_recorded(desk: Desk) -> None:
    assert desk.record(desk.measured("first", head()), "--candidate", "triton")[0] == 0
    assert desk.lines()[0].candidate == "triton"
    source = desk.passed(seed=3)
    code, error = desk.promote(source)
    assert code == 1 and "other candidate than the stored baseline: triton there, flydsl here" in error
    assert desk.judged(source, "--candidate", "triton") == 0
    assert desk.promote(source) == (0, ""), "the decision says whose times were judged"
    assert [(line.candidate, line.how) for line in desk.lines()] == [("triton", "recorded"), ("triton", "promoted")]


def test_a_candidate_without_a_name_is_not_the_default(desk: Desk) -> None:
    code, error = desk.record(desk.measured("first", head()), "--candidate", "")
    assert code == 64 and "--candidate names no provider" in error and not desk.place.exists()


def test_times_of_an_arm_that_both_sides_share_are_no_candidates(desk: Desk) -> None:
    shared = edited(head(), lambda row: row if row.provider != "flydsl" else msgspec.structs.replace(row, control=True))
    code, error = desk.record(desk.measured("first", shared))
    assert code == 1 and not desk.place.exists()
    assert "rmsnorm: 6 rows of flydsl measured as a baseline, in an arm that head and base share" in error
    assert desk.record(desk.measured("second", head(3)))[0] == 0 and pin(desk)[0] == 0
    later_rows = edited(shared, lambda row: msgspec.structs.replace(row, session_id="later", candidate_commit=NEXT))
    code, error = drift(desk, desk.measured("later", later_rows))
    assert code == 2 and "6 rows were measured in both, none in the same way" in error


def test_a_release_of_another_candidate_is_held_against_that_ones_times(desk: Desk) -> None:
    assert desk.record(desk.measured("first", head()), "--candidate", "triton")[0] == 0
    assert pin(desk)[0] == 0
    for name, slow, expected in (("same", 1.0, 0), ("slower", 1.09, 1)):
        rows = head(21, NEXT, session_id=name, rivals={**build.RIVALS, "triton": build.RIVALS["triton"] * slow})
        assert drift(desk, desk.measured(name, rows))[0] == expected, name
        alone = edited(rows, lambda row: None if row.provider == "flydsl" else row)
        assert drift(desk, desk.measured(f"{name}, alone", alone))[0] == expected, name


def test_an_op_that_was_not_measured_keeps_its_baseline_and_is_told(desk: Desk) -> None:
    blank = {"benchmark_status": "skipped", **NO_TIME}
    code, error = desk.record(desk.measured("first", edited(head(), every(**blank))))
    assert code == 2
    assert "rmsnorm: flydsl was not measured (skipped); its baseline stays" in error


def test_a_shape_that_is_measured_twice_has_no_time_to_rely_on(desk: Desk) -> None:
    results = head()
    twice = Results(outcomes=(*results.outcomes, msgspec.structs.replace(results.outcomes[0], median_us=1.0)))
    code, error = desk.record(desk.measured("first", twice))
    assert code == 1 and "partial: 1 of 6 shapes are measured twice" in error


@pytest.mark.parametrize(
    ("op_type", "code", "words"),
    [
        ("rmsnorm", 1, "rmsnorm: 1 shape is not in the frozen ledger, such as sha1:0"),
        (None, 2, "1 row is of no frozen ledger, such as sha1:0"),
    ],
)
def test_rows_of_shapes_that_nobody_froze_are_not_stored(
    desk: Desk, op_type: str | None, code: int, words: str
) -> None:
    results = head()
    strange = msgspec.structs.replace(results.outcomes[0], shape_id="sha1:0", op_type=op_type)
    found, error = desk.record(desk.measured("first", Results(outcomes=(*results.outcomes, strange))))
    assert found == code and words in error


def test_a_first_baseline_lacks_shapes_only_on_purpose_and_says_how_many(desk: Desk) -> None:
    results = edited(edited(head(), own(0)), own(1, benchmark_status="skipped", **NO_TIME))
    source = desk.measured("first", results)
    code, error = desk.record(source)
    assert code == 1 and "partial: 1 of 6 shapes have no row" in error and "partial: 1 of 6 shapes are skipped" in error
    assert desk.record(source, "--accept-partial") == (0, "")
    assert "4 times of flydsl" in desk.out and "2 shapes not measured" in desk.out
    (line,) = desk.lines()
    assert (line.timed, line.unsupported, line.missing) == (4, 0, 2)
    assert run(["ledger", "check", str(desk.ledgers)]) == 0
    assert desk.call("baseline", "show", "--ledgers", str(desk.ledgers))[0] == 0
    assert "23, 2 shapes missing" in desk.out
    # What comes after must be whole.
    partial = desk.measured("run", edited(head(3), own(2)), build.run(LEDGER, seed=1))
    policy = desk.folder / "policy.toml"
    policy.write_text(LENIENT)
    desk.judged(partial, "--policy", str(policy))
    assert desk.promote(partial)[0] == 1
    assert desk.promote(desk.passed("whole", seed=3))[0] == 0
    assert [(one.timed, one.missing) for one in desk.lines()] == [(4, 2), (6, 0)]


def test_a_first_baseline_has_one_cache_state_and_leaves_others_out_only_on_purpose(desk: Desk) -> None:
    source = desk.measured("first", edited(head(), own(2, cache_state="hot")))
    code, error = desk.record(source)
    assert code == 1 and "more than one cache state: cold_hbm, hot" in error
    code, error = desk.record(source, "--accept-partial")
    assert code == 0 and "rmsnorm: 1 shape left out, measured hot, not cold_hbm as the others" in error
    (line,) = desk.lines()
    assert (line.timed, line.missing, line.cache_state) == (5, 1, "cold_hbm")
    rows = store.read_results(desk.place / store.RESULTS_FILE).outcomes
    assert {row.cache_state for row in rows if row.provider == "flydsl"} == {"cold_hbm"}
    assert LEDGER.shapes[2].shape_id not in {row.shape_id for row in rows}


def test_providers_that_were_asked_nothing_are_not_stored(desk: Desk) -> None:
    results = head()
    empty = [
        msgspec.structs.replace(row, provider="gluon", benchmark_status=status, correct=None, **NO_TIME)
        for row, status in zip(results.outcomes, ("not_configured", "skipped") * 99, strict=False)
        if row.provider == "flydsl"
    ]
    refused = msgspec.structs.replace(empty[0], provider="aiter", benchmark_status="unsupported")
    source = desk.measured("first", Results(outcomes=(*results.outcomes, *empty, refused)))
    assert desk.record(source) == (0, "")
    stored = {row.provider for row in store.read_results(desk.place / store.RESULTS_FILE).outcomes}
    assert stored == {row.provider for row in results.outcomes} | {"aiter"}


@pytest.mark.parametrize("status", ["failed", "incorrect", "oom"])
def test_what_failed_is_never_passed_over(desk: Desk, status: str) -> None:
    results = edited(head(), own(0, benchmark_status=status, correct=False, **NO_TIME))
    code, error = desk.record(desk.measured("first", results), "--accept-partial")
    assert code == 1 and f"partial: 1 of 6 shapes are {status}" in error
