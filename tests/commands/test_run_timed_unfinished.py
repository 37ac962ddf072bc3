"""A timed run that ends early: what its decision says, and how it goes on to the decision of the undisturbed run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from gate import store
from gate.commands.timed_judge import MOST_NAMED, unfinished
from gate.model.problem import Problem
from tests.analysis import build
from tests.commands import timed_rig as rig
from tests.factory import decision_in


def test_the_time_that_was_granted_ends_it_and_resume_goes_on(ledgers: Path, slow: Path, tmp_path: Path) -> None:
    argv = rig.arguments(ledgers, tmp_path, head=rig.SLOW)
    code, _ = rig.call([*argv, "--minutes", "0.0001"])
    assert code == 2
    decision = decision_in(tmp_path)
    assert decision["gate"] == "no_verdict" and decision["reasons"][0] == "not_finished"
    assert "the time of --minutes is over" in decision["summary"]
    missing = [row["shape_id"] for row in decision["rows"] if row["verdict"] == "not_run"]
    assert missing and all(one in " ".join(decision["problems"]) for one in missing)
    kept = rig.journal(tmp_path, "replay")
    assert rig.call([*argv, "--resume"])[0] == 1
    assert (tmp_path / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()
    assert rig.journal(tmp_path, "replay")[: len(kept)] == kept


def broken_off(slow: Path, ledgers: Path, out: Path, *, without: Sequence[str]) -> list[str]:
    """The finished run as if it had broken off before these shapes were confirmed; how to go on with it."""
    shutil.copytree(slow, out)
    path = out / "confirm" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if json.loads(line).get("shape_id") not in without))
    return [*rig.arguments(ledgers, out, head=rig.SLOW), "--resume"]


# No worker answers so soon.
DEAD = ("--watchdog", "0.00001")


def test_a_run_that_breaks_off_while_it_confirms_blocks_on_what_is_confirmed(
    slow: Path, ledgers: Path, tmp_path: Path
) -> None:
    first, second = (row["shape_id"] for row in decision_in(slow)["rows"] if row["verdict"] == "regressed")
    argv = broken_off(slow, ledgers, tmp_path / "out", without=[second])
    assert rig.call([*argv, *DEAD])[0] == 1
    decision = decision_in(tmp_path / "out")
    assert decision["gate"] == "block" and "not_finished" in decision["reasons"]
    assert "hang" in decision["summary"]
    assert decision["next_step"].endswith("; --resume measures the rest")
    verdicts = {row["shape_id"]: (row["verdict"], row["reasons"]) for row in decision["rows"]}
    assert verdicts[first][0] == "regressed"
    assert rig.call(argv)[0] == 1
    assert (tmp_path / "out" / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()


def test_a_run_that_breaks_off_before_anything_is_confirmed_has_no_verdict(
    slow: Path, ledgers: Path, tmp_path: Path
) -> None:
    red = [row["shape_id"] for row in decision_in(slow)["rows"] if row["verdict"] == "regressed"]
    assert rig.call([*broken_off(slow, ledgers, tmp_path / "out", without=red), *DEAD])[0] == 2
    decision = decision_in(tmp_path / "out")
    assert decision["gate"] == "no_verdict" and decision["reasons"][0] == "not_finished"


def test_of_a_look_that_broke_off_only_the_shapes_that_it_finished_count(
    slow: Path, ledgers: Path, tmp_path: Path
) -> None:
    first, second = (row["shape_id"] for row in decision_in(slow)["rows"] if row["verdict"] == "regressed")
    argv = broken_off(slow, ledgers, tmp_path / "out", without=[])
    path = tmp_path / "out" / "confirm" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    last = [line for line in lines if json.loads(line).get("shape_id") == second][-1]
    path.write_text("".join(line for line in lines if line != last))
    assert rig.call([*argv, *DEAD])[0] == 1
    rows = [
        row
        for path in (tmp_path / "out" / "confirm" / "head").glob(f"*/{store.RESULTS_FILE}")
        for row in store.read_results(path).outcomes
    ]
    status = {row.shape_id: row.benchmark_status for row in rows if row.provider == "flydsl"}
    assert (status[first], status[second]) == ("ok", "skipped")


def test_the_manifests_say_how_the_time_was_spent_also_of_a_run_that_broke_off(
    ledgers: Path, slow: Path, tmp_path: Path
) -> None:
    for name in ("replay", "confirm"):
        told = json.loads((slow / name / "manifest.json").read_text())
        assert 0 < told["timed_gpu_s"] < told["token_held_s"] < told["wall_s"]
        assert told["missing"] == []
    argv = rig.arguments(ledgers, tmp_path, head=rig.SLOW)
    rig.call([*argv, "--minutes", "0.0001"])
    first = json.loads((tmp_path / "replay" / "manifest.json").read_text())
    assert first["wall_s"] > 0 and first["missing"]
    rig.call([*argv, "--resume"])
    whole = json.loads((tmp_path / "replay" / "manifest.json").read_text())
    assert whole["wall_s"] > first["wall_s"] and whole["missing"] == []


@pytest.mark.parametrize(
    ("missing", "broken", "summary", "problems"),
    [
        (["a", "b"], [], "2 shapes were not measured: a, b", ["2 shapes were not measured: a, b"]),
        ([], ["the GPU is gone"], "the GPU is gone", ["the GPU is gone"]),
        (["a"], ["gone", "drifted"], "gone", ["gone", "drifted", "1 shape was not measured: a"]),
    ],
)
def test_an_unfinished_run_says_first_what_broke_it_and_then_what_is_missing(
    missing: list[str], broken: list[str], summary: str, problems: list[str]
) -> None:
    ledger = build.ledger()
    green = build.decide(ledger, build.run(ledger, seed=1), build.run(ledger, seed=2))
    found = unfinished(green, missing, [Problem(what=what, file="") for what in broken], confirmed=False)
    assert green.gate == "pass"
    assert (found.gate, found.decision, found.headline) == ("no_verdict", "blocked", "no_verdict")
    assert found.reasons[0] == "not_finished"
    assert found.summary == f"The run did not finish: {summary}. {green.summary}"
    assert found.problems == (*problems, *green.problems)
    assert found.rows == green.rows


def test_of_many_missing_shapes_the_first_are_named_and_the_others_counted() -> None:
    ledger = build.ledger()
    green = build.decide(ledger, build.run(ledger, seed=1), build.run(ledger, seed=2))
    shapes = [f"s{number}" for number in range(MOST_NAMED + 1)]
    assert unfinished(green, shapes, [], confirmed=False).problems[0].endswith(f", s{MOST_NAMED - 1} and 1 more")
    assert unfinished(green, shapes[:-1], [], confirmed=False).problems[0].endswith(f", s{MOST_NAMED - 1}")
