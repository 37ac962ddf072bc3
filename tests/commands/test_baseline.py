"""Stored baselines: which runs may become one, each refusal with its line, what is written, and who reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.ledgers.freeze import sha256
from gate.ledgers.promotion import commit_fault
from gate.ledgers.ratios import ratios
from gate.model.outcome import Outcome, Results
from tests.analysis import build
from tests.commands.baseline_desk import DAY, LEDGER, NEXT, SHA, Desk, head


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capsys)


def test_a_run_that_passed_becomes_the_baseline_with_its_provenance(desk: Desk) -> None:
    source = desk.passed()
    code, error = desk.promote(source, "--run", "77")
    assert (code, error) == (0, "")
    stored = store.read_results(desk.place / store.RESULTS_FILE).outcomes
    assert sorted(stored, key=repr) == sorted(head().outcomes, key=repr)
    (line,) = desk.lines()
    told = (line.commit, line.run, str(line.date), line.gpu, line.arch, line.timing_method, line.cache_state)
    assert told == (SHA, "77", DAY, "AMD Instinct MI350X", "gfx950", "graph_slope", "cold_hbm")
    assert (line.rows, line.timed, line.how, line.verdicts["unchanged"]) == (24, 6, "promoted", 6)
    assert line.stack["rocm_version"] == "7.2.0"
    assert line.decision_sha256 == sha256((source / "decision" / "decision.json").read_bytes())
    assert line.sha256 == sha256((desk.place / store.RESULTS_FILE).read_bytes())
    assert line.policy_sha256 is not None and len(line.policy_sha256) == 64
    assert run(["ledger", "check", str(desk.ledgers)]) == 0, "the lock covers what was written"


def test_a_later_run_is_judged_against_what_promote_wrote(desk: Desk) -> None:
    assert desk.promote(desk.passed())[0] == 0
    for name, slow, expected in (("same", {}, 0), ("slower", {0: 1.4}, 1)):
        results = head(5, NEXT, factors=slow, session_id="two", k=None)
        later = desk.measured(name, results)
        argv = ["judge", "--ledger", str(desk.ledgers), "--matrix", str(desk.ledgers), "--base", str(desk.ledgers)]
        out = later / "decision"
        assert run([*argv, "--head", str(later / "head"), "--out", str(out), "--today", DAY]) == expected, name
        found = json.loads((out / "decision.json").read_text())
        assert found["environment"]["base"]["candidate_commit"] == SHA
        assert found["counts"]["new"] == found["counts"]["missing"] == 0


def test_what_a_promotion_replaces_stays_and_no_earlier_line_changes(desk: Desk) -> None:
    assert desk.promote(desk.passed())[0] == 0
    first = (desk.place / store.RESULTS_FILE).read_bytes()
    written = (desk.place / "provenance.jsonl").read_bytes()
    assert desk.promote(desk.passed("second", seed=3, commit=NEXT), commit=NEXT)[0] == 0
    assert (desk.place / "history" / "1" / store.RESULTS_FILE).read_bytes() == first
    assert (desk.place / "provenance.jsonl").read_bytes().startswith(written)
    assert [line.commit for line in desk.lines()] == [SHA, NEXT]
    assert desk.lines()[0].replaced is None
    assert run(["ledger", "check", str(desk.ledgers)]) == 0


def test_the_same_results_are_promoted_once_and_older_ones_never_again(desk: Desk) -> None:
    first, second = desk.passed(), desk.passed("second", seed=3, commit=NEXT)
    assert desk.promote(first)[0] == 0
    before = desk.files()
    assert desk.promote(first)[0] == 0
    assert "already the baseline" in desk.out and desk.files() == before
    assert desk.promote(second, commit=NEXT)[0] == 0
    code, error = desk.promote(first)
    assert code == 1 and "these results were the baseline before" in error


Edit = Callable[[Outcome], Outcome | None]


def edited(results: Results, change: Edit) -> Results:
    rows = [change(row) for row in results.outcomes]
    return Results(outcomes=tuple(row for row in rows if row is not None))


def own(index: int, **fields: Any) -> Edit:
    """Changes the candidate's row of one shape; without fields it is left out."""
    wanted = LEDGER.shapes[index].shape_id

    def change(row: Outcome) -> Outcome | None:
        if (row.shape_id, row.provider) != (wanted, "flydsl"):
            return row
        return msgspec.structs.replace(row, **fields) if fields else None

    return change


def every(**fields: Any) -> Edit:
    return lambda row: msgspec.structs.replace(row, **fields)


NO_TIME: dict[str, Any] = {"median_us": None, "blocks_us": None}
LENIENT = "[coverage]\nmeasured = 0.1\nconclusive = 0.1\n"
# What is done to the rows of head -> what is said. The policy lets all of them pass, so that promote itself must see.
PARTIAL: dict[str, tuple[Edit, str]] = {
    "a shape without a row": (own(0), "partial: 1 of 6 shapes have no row, such as sha1:"),
    "a skipped row": (own(0, benchmark_status="skipped", **NO_TIME), "partial: 1 of 6 shapes are skipped"),
    "a time without a check": (own(0, correct=None), "partial: 1 of 6 shapes have no time of a checked output"),
    "a time that none can take": (
        own(0, blocks_us=((3.0, 3.0), (-3.0, 3.0))),
        "partial: 1 of 6 shapes have no time of a checked output",
    ),
}
MIXED: dict[str, tuple[Edit, str]] = {
    "two GPUs": (own(0, gpu="AMD Instinct MI355X"), "more than one GPU: AMD Instinct MI350X, AMD Instinct MI355X"),
    "two methods": (own(0, timing_method="cudagraph"), "more than one timing method: cudagraph, graph_slope"),
    "two cache states": (own(0, cache_state="hot"), "more than one cache state: cold_hbm, hot"),
    "rows of a dirty tree": (every(candidate_commit=f"{SHA}-dirty"), f"the tree was dirty: rows are of {SHA}-dirty"),
    "rows of another commit": (every(candidate_commit=NEXT), f"rows are of {NEXT}, not of {SHA}"),
    "rows of no commit": (every(candidate_commit=None), "rows are of no named commit"),
    "no GPU": (every(gpu=None), "the rows do not say their GPU"),
}


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
        (head(factors={0: 1.5}), "confirmed_regression", "regressed: 1 rows got slower"),
        (edited(head(), own(1, benchmark_status="failed", **NO_TIME)), "newly_failed", "newly_failed: 1 rows fail"),
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
    assert f"rmsnorm: {verdict}: 1 rows" in error


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


def test_another_gpu_of_the_same_architecture_gets_a_folder_of_its_own(desk: Desk) -> None:
    assert desk.promote(desk.passed())[0] == 0
    fields: dict[str, Any] = {"gpu": "AMD Instinct MI355X"}
    source = desk.measured("other", head(3, **fields), build.run(LEDGER, seed=1, **fields))
    assert desk.judged(source) == 0
    assert desk.promote(source, "--name", "gfx950-mi355x")[0] == 0
    assert (desk.ledgers / "rmsnorm/baselines/gfx950-mi355x" / store.RESULTS_FILE).is_file()


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


def test_a_folder_that_was_edited_by_hand_is_not_locked_anew(desk: Desk) -> None:
    assert desk.promote(desk.passed())[0] == 0
    later = desk.passed("later", seed=3)
    with (desk.place / store.RESULTS_FILE).open("ab") as file:
        file.write(b"\n")
    code, error = desk.promote(later)
    assert code == 2 and "its bytes are not those of the lock" in error
    assert run(["ledger", "freeze", str(desk.ledgers)]) == 0
    code, error = desk.promote(later)
    assert code == 2 and "not what the last line of provenance.jsonl says" in error


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
    code, error = desk.promote(desk.passed())
    assert code == 1 and "other candidate than the stored baseline: triton there, flydsl here" in error


def test_an_op_that_was_not_measured_keeps_its_baseline_and_is_told(desk: Desk) -> None:
    blank = {"benchmark_status": "skipped", **NO_TIME}
    code, error = desk.record(desk.measured("first", edited(head(), every(**blank))))
    assert code == 2
    assert "rmsnorm: flydsl was not measured (skipped); its baseline stays" in error


def test_show_tells_each_baseline_and_its_age(desk: Desk) -> None:
    assert desk.call("baseline", "show", "--ledgers", str(desk.ledgers))[0] == 0
    assert desk.out.strip() == "no baseline is stored"
    assert desk.promote(desk.passed())[0] == 0
    argv = ["baseline", "show", "--ledgers", str(desk.ledgers), "--today", "2026-06-15"]
    assert desk.call(*argv)[0] == 0
    row = " ".join(desk.out.splitlines()[1].split())
    assert row == f"rmsnorm gfx950 AMD Instinct MI350X graph_slope cold_hbm 14 d {SHA[:12]} 24 1"
    desk.call(*argv, "--json")
    (entry,) = json.loads(desk.out)
    assert (entry["age_days"], entry["commit"], entry["contents"]) == (14, SHA, "times")
    assert desk.call(*argv, "--op", "softmax")[0] == 64


def test_diff_lists_what_cannot_be_compared_and_then_the_worst_first(desk: Desk) -> None:
    slower = edited(head(2, factors={3: 1.5}), own(0))
    first, second = desk.measured("one", head()), desk.measured("two", slower)
    assert desk.call("baseline", "diff", str(first), str(second), "--provider", "flydsl")[0] == 0
    lines = desk.out.splitlines()
    assert LEDGER.shapes[0].shape_id in lines[1] and "not in the second" in lines[1]
    assert LEDGER.shapes[3].shape_id in lines[2] and lines[2].split()[-1].startswith("1.5")
    assert "6 rows: 5 compared" in lines[-1]
    desk.call("baseline", "diff", str(first), str(second), "--json")
    assert len(json.loads(desk.out)) == 24


def test_times_of_two_methods_have_no_ratio() -> None:
    one = build.outcome(LEDGER.shapes[0], "flydsl", 10.0)
    other = msgspec.structs.replace(one, timing_method="cudagraph", median_us=20.0)
    (found,) = ratios([one], [other])
    assert found.ratio is None and found.why == "timing_method graph_slope against cudagraph"
    (found,) = ratios([one, one], [one])
    assert found.ratio is None and found.why == "no time in the first"


def test_drift_that_each_run_lets_pass_is_written_down(desk: Desk) -> None:
    level = 1.0
    for step in range(4):
        commit = f"{step:x}" * 40
        source = desk.measured(
            f"run{step}",
            head(10 + step, commit, every=level),
            build.run(LEDGER, seed=step, every=level),
        )
        assert desk.judged(source) == 0
        assert desk.promote(source, commit=commit)[0] == 0
        level *= 1.02
    told = [line.replaced for line in desk.lines() if line.replaced is not None]
    assert len(told) == 3 and all(one.n == 6 and one.slower == 6 for one in told)
    drift = told[0].geomean * told[1].geomean * told[2].geomean
    assert 1.06 < drift < 1.08
    assert all(one.worst > one.geomean > 1.015 for one in told)
    assert "6 of 6 rows slower than those they replace" in desk.out


def test_a_shape_that_is_measured_twice_has_no_time_to_rely_on(desk: Desk) -> None:
    results = head()
    twice = Results(outcomes=(*results.outcomes, msgspec.structs.replace(results.outcomes[0], median_us=1.0)))
    code, error = desk.record(desk.measured("first", twice))
    assert code == 1 and "partial: 1 of 6 shapes are measured twice" in error


@pytest.mark.parametrize(
    ("op_type", "code", "words"),
    [
        ("rmsnorm", 1, "rmsnorm: 1 shapes are not in the frozen ledger, such as sha1:0"),
        (None, 2, "1 rows are of no frozen ledger, such as sha1:0"),
    ],
)
def test_rows_of_shapes_that_nobody_froze_are_not_stored(
    desk: Desk, op_type: str | None, code: int, words: str
) -> None:
    results = head()
    strange = msgspec.structs.replace(results.outcomes[0], shape_id="sha1:0", op_type=op_type)
    found, error = desk.record(desk.measured("first", Results(outcomes=(*results.outcomes, strange))))
    assert found == code and words in error


def test_a_decision_on_another_candidate_is_not_that_of_these_results(desk: Desk) -> None:
    source = desk.passed()
    path = source / "decision" / "decision.json"
    decision = json.loads(path.read_text())
    for row in decision["rows"]:
        row["provider"] = "triton"
    path.write_text(json.dumps(decision))
    code, error = desk.promote(source)
    assert code == 2 and "the decision does not judge flydsl on sha1:" in error


def test_a_promotion_that_breaks_off_is_told_by_every_later_verb(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert desk.promote(desk.passed())[0] == 0
    later = desk.passed("later", seed=3)
    written: list[Path] = []
    whole = store.write_bytes

    def breaks(path: Path, data: bytes) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)
        whole(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(store, "write_bytes", breaks)
        assert desk.promote(later)[0] == 130
    assert [path.name for path in written] == [store.RESULTS_FILE, "provenance.jsonl"]
    assert desk.call("ledger", "check", str(desk.ledgers))[0] == 2
    assert desk.call("baseline", "show", "--ledgers", str(desk.ledgers))[0] == 2
    assert desk.promote(later)[0] == 2


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


@pytest.mark.parametrize("status", ["failed", "incorrect", "oom"])
def test_what_failed_is_never_passed_over(desk: Desk, status: str) -> None:
    results = edited(head(), own(0, benchmark_status=status, correct=False, **NO_TIME))
    code, error = desk.record(desk.measured("first", results), "--accept-partial")
    assert code == 1 and f"partial: 1 of 6 shapes are {status}" in error
