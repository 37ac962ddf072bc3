"""What a plan of shards goes by: measured costs or the model, whose they are, and costs that are none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gate import store
from gate.cli import run
from tests.commands import timed_rig as rig


def test_measured_costs_balance_the_shards(sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = json.loads((sharded / "plan.json").read_text())["shards"]
    dear = shapes[0]["shapes"][0]
    every = [shape for shard in shapes for shape in shard["shapes"]]
    lines = [{"session_id": "x"}] + [
        {"shape_id": shape, "process": 0, "spent_s": {"visit": 70.0 if shape == dear else 10.0}} for shape in every
    ]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    argv = ["shard", "plan", "--ledgers", str(sharded / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    argv += ["--costs", str(tmp_path / "run"), "--out", str(tmp_path / "plan.json"), "--matrix"]
    assert run(argv) == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert sorted(len(shard["shapes"]) for shard in plan["shards"]) == [1, 7]
    told = capsys.readouterr()
    assert f"{len(every)} of {len(every)} shapes at measured cost from an unnamed GPU\n" in told.err
    assert json.loads(told.out) == {"include": [{"shard": "1/2", "name": "1-of-2"}, {"shard": "2/2", "name": "2-of-2"}]}
    assert plan["estimates"]["1"] > plan["estimates"]["2"]


def planned(root: Path, out: Path, *costs: Path) -> dict[str, Any]:
    argv = ["shard", "plan", "--ledgers", str(root), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, *(part for one in costs for part in ("--costs", str(one))), "--out", str(out)]) == 0
    return dict(json.loads(out.read_text()))


def test_a_plan_says_whose_costs_it_goes_by_and_how(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned(sharded / "ledgers", tmp_path / "plan.json", sharded / "1")
    (told, *_) = capsys.readouterr().err.splitlines()
    count = len(json.loads((sharded / "1" / "part.json").read_text())["shapes"])
    assert told.startswith(
        f"{count} of 8 shapes at measured cost from a simulated GPU; the other {8 - count} by the model"
    )
    assert "; wall time " in told and told.endswith(
        "simulated seconds say nothing of a real run's: for one, name a run on its GPU"
    )
    planned(sharded / "ledgers", tmp_path / "plan.json")
    assert capsys.readouterr().err.splitlines()[0] == "8 shapes, costs by the model alone"


def test_a_plan_names_the_gpu_that_its_costs_are_of(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = json.loads((sharded / "plan.json").read_text())["shards"][0]["shapes"][0]
    for name, gpu in (("one", "NVIDIA H200"), ("two", "\x1b[1mX")):
        line = {"shape_id": shape, "spent_s": {"visit": 10.0}, "environments": {"head": {"gpu": gpu}, "base": 5}}
        store.write_text(
            tmp_path / name / "journal.jsonl", json.dumps({"fingerprint": 5}) + "\n" + json.dumps(line) + "\n"
        )
    planned(sharded / "ledgers", tmp_path / "plan.json", tmp_path / "one", tmp_path / "two")
    (told, *_) = capsys.readouterr().err.splitlines()
    assert told.startswith("1 of 8 shapes at measured cost from ") and "NVIDIA H200" in told
    assert "\x1b" not in told and "simulated" not in told


def test_costs_of_other_shapes_alone_change_nothing_and_that_is_said(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rig.shapes("rmsnorm", 3, N=128)})
    capsys.readouterr()
    made = planned(other, tmp_path / "plan.json", sharded / "whole")
    (told, *_) = capsys.readouterr().err.splitlines()
    words = "costs by the model alone, as without --costs"
    assert told == f"3 shapes, 0 of them among the costs from a simulated GPU: {words}"
    assert made == planned(other, tmp_path / "again.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "5", '{"wall_s": "x"}', '{"wall_s": -1}', "[" * 10**5, '"\\ud800'])
def test_a_manifest_that_is_none_is_one_line(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    shutil.copytree(sharded / "1" / "replay", tmp_path / "replay")
    (tmp_path / "replay" / "manifest.json").write_text(text)
    argv = ["shard", "plan", "--ledgers", str(sharded / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--costs", str(tmp_path), "--out", str(tmp_path / "plan.json")]) == 2
    said = capsys.readouterr().err
    assert "manifest.json: not the manifest of a run" in said and said.count("\n") == 1


@pytest.mark.parametrize("spent", [None, [], {"drop": None}, {"drop": "x"}, {"drop": -1.0}, {"drop": 1e300}])
def test_seconds_that_are_none_are_one_line(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spent: Any
) -> None:
    line = {"shape_id": "sha1:0", "spent_s": spent, "arms": {}}
    (tmp_path / "journal.jsonl").write_text(json.dumps(line) + "\n")
    argv = ["shard", "plan", "--ledgers", str(sharded / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--costs", str(tmp_path), "--out", str(tmp_path / "plan.json")]) == 2
    said = capsys.readouterr().err
    assert "the seconds of sha1:0 are none" in said and said.count("\n") == 1


def test_costs_of_a_folder_without_a_run_are_one_line(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["shard", "plan", "--ledgers", str(sharded / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--costs", str(tmp_path), "--out", str(tmp_path / "plan.json")]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path}: no journal.jsonl in it" in said and said.count("\n") == 1
    assert not (tmp_path / "plan.json").exists()


@pytest.mark.parametrize("text", ["", "no journal", '{"session_id": "s"}\n'])
def test_costs_of_a_run_that_measured_nothing_are_refused(
    sharded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "journal.jsonl").write_text(text)
    argv = ["shard", "plan", "--ledgers", str(sharded / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--costs", str(tmp_path), "--out", str(tmp_path / "plan.json")]) == 2
    assert "no finished shape in it" in capsys.readouterr().err
