"""Shards: equal parts by cost, run apart and put together as one run; what is missing or unlike is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gate import store
from gate.cli import run
from tests.commands import timed_rig as rig
from tests.factory import decision_in


def merge(root: Path, out: Path, *folders: Path) -> int:
    return run(["shard", "merge", *map(str, folders), "--ledgers", str(root / "ledgers"), "--out", str(out)])


def copied(sharded: Path, to: Path) -> tuple[Path, Path]:
    for name in ("1", "2"):
        shutil.copytree(sharded / name, to / name)
    return to / "1", to / "2"


def edit(folder: Path, **fields: Any) -> None:
    path = folder / "part.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_plan_holds_every_shape_once_and_is_the_same_again(sharded: Path, tmp_path: Path) -> None:
    plan = json.loads((sharded / "plan.json").read_text())
    listed = [shape for shard in plan["shards"] for shape in shard["shapes"]]
    assert len(listed) == len(set(listed)) == sum(rig.SHARDED.values())
    assert abs(len(plan["shards"][0]["shapes"]) - len(plan["shards"][1]["shapes"])) <= 1
    argv = ["shard", "plan", "--ledgers", str(sharded / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--out", str(tmp_path / "again.json")]) == 0
    assert (tmp_path / "again.json").read_bytes() == (sharded / "plan.json").read_bytes()


def test_shards_put_together_say_what_the_whole_run_says(sharded: Path, tmp_path: Path) -> None:
    assert merge(sharded, tmp_path / "out", sharded / "2", sharded / "1") == 1
    merged, whole = decision_in(tmp_path / "out"), decision_in(sharded / "whole")
    assert merged["counts"] == whole["counts"] and merged["counts"]["regressed"] == sum(rig.SHARDED.values())
    told = [(row["shape_id"], row["verdict"], row["ratio"], row["speedup_vs_best"]) for row in merged["rows"]]
    assert told == [(row["shape_id"], row["verdict"], row["ratio"], row["speedup_vs_best"]) for row in whole["rows"]]
    assert merged["scope"] == ""
    # The merging call is not told where the ops are defined; the shards know.
    assert merged["commands"] == whole["commands"] != []


def test_a_shard_that_is_dead_is_named_with_its_shapes(sharded: Path, tmp_path: Path) -> None:
    (tmp_path / "dead").mkdir()
    assert merge(sharded, tmp_path / "out", sharded / "1", tmp_path / "dead") == 2
    decision = decision_in(tmp_path / "out")
    assert decision["gate"] == "no_verdict" and decision["reasons"][0] == "not_finished"
    gone = json.loads((sharded / "plan.json").read_text())["shards"][1]["shapes"]
    assert all(shape in decision["problems"][0] for shape in gone) and "shard 2/2" in decision["problems"][0]
    assert json.loads((tmp_path / "out" / "status.json").read_text())["state"] == "error"


def test_a_shard_that_broke_off_is_no_verdict(sharded: Path, tmp_path: Path) -> None:
    one, two = copied(sharded, tmp_path)
    edit(two, finished=False, problems=["the GPU no longer answers"])
    assert merge(sharded, tmp_path / "out", one, two) == 2
    decision = decision_in(tmp_path / "out")
    assert decision["gate"] == "no_verdict"
    assert "shard 2/2 broke off (the GPU no longer answers)" in decision["problems"][0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"machine": {"gpu": ["another"], "arch": ["sim"]}}, "machine's gpu: shard 2/2 has another, shard 1/2 has sim"),
        ({"commits": {"head": "c" * 40, "base": "b" * 40, "control": None}}, "commit of head: shard 2/2 has ccc"),
        ({"engine": {"budget_us": 500.0}}, "setting budget_us: shard 2/2 has 500.0"),
        ({"ledgers": {"rmsnorm/shape_ledger.jsonl": "0"}}, "shard 2/2 measured another"),
        ({"shard": "1/2"}, "shard 1/2 is there twice"),
        ({"shard": "3/3"}, "shard 3/3 is not one of a plan for 2"),
        ({"shapes": ["sha1:0000000000000000"]}, "shard 2/2 has other shapes than the plan"),
    ],
)
def test_shards_that_are_no_one_run_are_refused(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], words: str
) -> None:
    one, two = copied(sharded, tmp_path)
    if "engine" in fields:
        fields = {"engine": {**json.loads((two / "part.json").read_text())["engine"], **fields["engine"]}}
    edit(two, **fields)
    assert merge(sharded, tmp_path / "out", one, two) == 2
    assert words in capsys.readouterr().err
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"


def test_a_row_of_another_shard_is_refused(sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = copied(sharded, tmp_path)
    path = two / "results" / "rmsnorm" / store.RESULTS_FILE
    path.write_text(path.read_text() + (one / "results" / "rmsnorm" / store.RESULTS_FILE).read_text())
    assert merge(sharded, tmp_path / "out", one, two) == 2
    assert "which is not its own" in capsys.readouterr().err


def test_other_ledgers_than_those_measured_are_refused(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rig.shapes("rmsnorm", 5), "softmax": rig.shapes("softmax", 4)})
    assert merge(tmp_path, tmp_path / "out", sharded / "1", sharded / "2") == 2
    assert "the plan was made from another softmax/shape_ledger.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["--shard", "3/2"], 64, "--shard 3/2 is not K/N"),
        (["--shard", "x"], 64, "--shard x is not K/N"),
        (["--shard", "1/3", "--plan", "PLAN"], 64, "the plan is for 2 runners"),
        (["--plan", "PLAN"], 64, "--plan needs --shard"),
        (["--shard", "1/2", "--plan", "PLAN", "--limit", "1"], 64, "which is not among the shapes"),
        (["--shard", "9/9"], 64, "shard 9/9 has no shape"),
    ],
)
def test_wrong_shards_are_one_line(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, words: str
) -> None:
    named = [str(sharded / "plan.json") if word == "PLAN" else word for word in more]
    assert run(rig.arguments(sharded / "ledgers", tmp_path / "out", *named)) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_everything_a_shard_leaves_is_known_or_valid(sharded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", str(sharded / "1"), str(sharded / "whole")]) == 0
    assert capsys.readouterr().err == ""


def test_a_shard_is_never_written_over(sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = copied(sharded, tmp_path)
    shutil.copytree(two, tmp_path / "all" / "results" / "2")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"}
    for out, second in ((one, two), (two, two), (tmp_path / "x" / ".." / "1", two)):
        assert merge(sharded, out, one, second) == 64
        assert "would write over it; name another --out" in capsys.readouterr().err
    assert merge(sharded, tmp_path / "all", one, tmp_path / "all" / "results" / "2") == 64
    assert {path: path.read_bytes() for path in before} == before


def test_more_runners_than_shapes_make_a_whole_run(tmp_path: Path) -> None:
    ledgers = rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rig.shapes("rmsnorm", 2)})
    plan = ["shard", "plan", "--ledgers", str(ledgers), "--op-from", f"{rig.KERNELS}:OP", "--runners", "3"]
    assert run([*plan, "--out", str(tmp_path / "plan.json")]) == 0
    for number in (1, 2):
        more = ("--shard", f"{number}/3", "--plan", str(tmp_path / "plan.json"))
        assert rig.call(rig.arguments(ledgers, tmp_path / str(number), *more))[0] == 0
    assert merge(tmp_path, tmp_path / "out", tmp_path / "1", tmp_path / "2") == 0
    counts = decision_in(tmp_path / "out")["counts"]
    assert counts["unchanged"] == counts["total"] == 2
    assert merge(tmp_path, tmp_path / "out", tmp_path / "1") == 2
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"
