"""Stored baselines: a run that passed becomes one, what is written and kept, and who reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.ledgers.freeze import sha256
from gate.ledgers.ratios import ratios
from tests.analysis import build
from tests.commands.baseline_desk import DAY, LEDGER, NEXT, SHA, Desk, edited, head, own
from tests.factory import decision_in


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
        found = decision_in(out)
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


def test_another_gpu_of_the_same_architecture_gets_a_folder_of_its_own(desk: Desk) -> None:
    assert desk.promote(desk.passed())[0] == 0
    fields: dict[str, Any] = {"gpu": "AMD Instinct MI355X"}
    source = desk.measured("other", head(3, **fields), build.run(LEDGER, seed=1, **fields))
    assert desk.judged(source) == 0
    assert desk.promote(source, "--name", "gfx950-mi355x")[0] == 0
    assert (desk.ledgers / "rmsnorm/baselines/gfx950-mi355x" / store.RESULTS_FILE).is_file()


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
