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

LEDGERS = {"rmsnorm": 5, "softmax": 3}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ledgers, a plan for two, both shards run with head 4% slower, and the whole run beside them."""
    root = tmp_path_factory.mktemp("shards")
    rig.write_ledgers(root / "ledgers", {op: rig.shapes(op, count) for op, count in LEDGERS.items()})
    plan = ["shard", "plan", "--ledgers", str(root / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*plan, "--out", str(root / "plan.json")]) == 0
    slow = {"head": rig.SLOW}
    for number in (1, 2):
        more = ("--shard", f"{number}/2", "--plan", str(root / "plan.json"))
        code, stderr = rig.call(rig.arguments(root / "ledgers", root / str(number), *more, **slow))
        assert code == 1, stderr
    code, stderr = rig.call(rig.arguments(root / "ledgers", root / "whole", **slow))
    assert code == 1, stderr
    return root


def merge(root: Path, out: Path, *folders: Path) -> int:
    return run(["shard", "merge", *map(str, folders), "--ledgers", str(root / "ledgers"), "--out", str(out)])


def copied(ran: Path, to: Path) -> tuple[Path, Path]:
    for name in ("1", "2"):
        shutil.copytree(ran / name, to / name)
    return to / "1", to / "2"


def edit(folder: Path, **fields: Any) -> None:
    path = folder / "part.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_plan_holds_every_shape_once_and_is_the_same_again(ran: Path, tmp_path: Path) -> None:
    plan = json.loads((ran / "plan.json").read_text())
    listed = [shape for shard in plan["shards"] for shape in shard["shapes"]]
    assert len(listed) == len(set(listed)) == sum(LEDGERS.values())
    assert abs(len(plan["shards"][0]["shapes"]) - len(plan["shards"][1]["shapes"])) <= 1
    argv = ["shard", "plan", "--ledgers", str(ran / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--out", str(tmp_path / "again.json")]) == 0
    assert (tmp_path / "again.json").read_bytes() == (ran / "plan.json").read_bytes()


def test_shards_put_together_say_what_the_whole_run_says(ran: Path, tmp_path: Path) -> None:
    assert merge(ran, tmp_path / "out", ran / "2", ran / "1") == 1
    merged, whole = decision_in(tmp_path / "out"), decision_in(ran / "whole")
    assert merged["counts"] == whole["counts"] and merged["counts"]["regressed"] == sum(LEDGERS.values())
    told = [(row["shape_id"], row["verdict"], row["ratio"], row["speedup_vs_best"]) for row in merged["rows"]]
    assert told == [(row["shape_id"], row["verdict"], row["ratio"], row["speedup_vs_best"]) for row in whole["rows"]]
    assert merged["scope"] == ""
    # The merging call is not told where the ops are defined; the shards know.
    assert merged["commands"] == whole["commands"] != []


def test_a_shard_that_is_dead_is_named_with_its_shapes(ran: Path, tmp_path: Path) -> None:
    (tmp_path / "dead").mkdir()
    assert merge(ran, tmp_path / "out", ran / "1", tmp_path / "dead") == 2
    decision = decision_in(tmp_path / "out")
    assert decision["gate"] == "no_verdict" and decision["reasons"][0] == "not_finished"
    gone = json.loads((ran / "plan.json").read_text())["shards"][1]["shapes"]
    assert all(shape in decision["problems"][0] for shape in gone) and "shard 2/2" in decision["problems"][0]
    assert json.loads((tmp_path / "out" / "status.json").read_text())["state"] == "error"


def test_a_shard_that_broke_off_is_no_verdict(ran: Path, tmp_path: Path) -> None:
    one, two = copied(ran, tmp_path)
    edit(two, finished=False, problems=["the GPU no longer answers"])
    assert merge(ran, tmp_path / "out", one, two) == 2
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
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], words: str
) -> None:
    one, two = copied(ran, tmp_path)
    if "engine" in fields:
        fields = {"engine": {**json.loads((two / "part.json").read_text())["engine"], **fields["engine"]}}
    edit(two, **fields)
    assert merge(ran, tmp_path / "out", one, two) == 2
    assert words in capsys.readouterr().err
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"


def test_a_row_of_another_shard_is_refused(ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = copied(ran, tmp_path)
    path = two / "results" / "rmsnorm" / store.RESULTS_FILE
    path.write_text(path.read_text() + (one / "results" / "rmsnorm" / store.RESULTS_FILE).read_text())
    assert merge(ran, tmp_path / "out", one, two) == 2
    assert "which is not its own" in capsys.readouterr().err


def test_other_ledgers_than_those_measured_are_refused(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rig.shapes("rmsnorm", 5), "softmax": rig.shapes("softmax", 4)})
    assert merge(tmp_path, tmp_path / "out", ran / "1", ran / "2") == 2
    assert "the plan was made from another softmax/shape_ledger.jsonl" in capsys.readouterr().err


def test_measured_costs_balance_the_shards(ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = json.loads((ran / "plan.json").read_text())["shards"]
    dear = shapes[0]["shapes"][0]
    every = [shape for shard in shapes for shape in shard["shapes"]]
    lines = [{"session_id": "x"}] + [
        {"shape_id": shape, "process": 0, "spent_s": {"visit": 70.0 if shape == dear else 10.0}} for shape in every
    ]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    argv = ["shard", "plan", "--ledgers", str(ran / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    argv += ["--costs", str(tmp_path / "run"), "--out", str(tmp_path / "plan.json"), "--matrix"]
    assert run(argv) == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert sorted(len(shard["shapes"]) for shard in plan["shards"]) == [1, 7]
    told = capsys.readouterr()
    assert f"{len(every)} of {len(every)} shapes at measured cost from an unnamed GPU\n" in told.err
    assert json.loads(told.out) == {"include": [{"shard": "1/2", "name": "1-of-2"}, {"shard": "2/2", "name": "2-of-2"}]}
    assert plan["estimates"]["1"] > plan["estimates"]["2"]


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
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, words: str
) -> None:
    named = [str(ran / "plan.json") if word == "PLAN" else word for word in more]
    assert run(rig.arguments(ran / "ledgers", tmp_path / "out", *named)) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_everything_a_shard_leaves_is_known_or_valid(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", str(ran / "1"), str(ran / "whole")]) == 0
    assert capsys.readouterr().err == ""


def planned(root: Path, out: Path, *costs: Path) -> dict[str, Any]:
    argv = ["shard", "plan", "--ledgers", str(root), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, *(part for one in costs for part in ("--costs", str(one))), "--out", str(out)]) == 0
    return dict(json.loads(out.read_text()))


def test_a_plan_says_whose_costs_it_goes_by_and_how(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned(ran / "ledgers", tmp_path / "plan.json", ran / "1")
    (told, *_) = capsys.readouterr().err.splitlines()
    count = len(json.loads((ran / "1" / "part.json").read_text())["shapes"])
    assert told.startswith(
        f"{count} of 8 shapes at measured cost from a simulated GPU; the other {8 - count} by the model"
    )
    assert "; wall time " in told and told.endswith(
        "simulated seconds say nothing of a real run's: for one, name a run on its GPU"
    )
    planned(ran / "ledgers", tmp_path / "plan.json")
    assert capsys.readouterr().err.splitlines()[0] == "8 shapes, costs by the model alone"


def test_a_plan_names_the_gpu_that_its_costs_are_of(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = json.loads((ran / "plan.json").read_text())["shards"][0]["shapes"][0]
    for name, gpu in (("one", "NVIDIA H200"), ("two", "\x1b[1mX")):
        line = {"shape_id": shape, "spent_s": {"visit": 10.0}, "environments": {"head": {"gpu": gpu}, "base": 5}}
        store.write_text(
            tmp_path / name / "journal.jsonl", json.dumps({"fingerprint": 5}) + "\n" + json.dumps(line) + "\n"
        )
    planned(ran / "ledgers", tmp_path / "plan.json", tmp_path / "one", tmp_path / "two")
    (told, *_) = capsys.readouterr().err.splitlines()
    assert told.startswith("1 of 8 shapes at measured cost from ") and "NVIDIA H200" in told
    assert "\x1b" not in told and "simulated" not in told


def test_costs_of_other_shapes_alone_change_nothing_and_that_is_said(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rig.shapes("rmsnorm", 3, N=128)})
    capsys.readouterr()
    made = planned(other, tmp_path / "plan.json", ran / "whole")
    (told, *_) = capsys.readouterr().err.splitlines()
    words = "costs by the model alone, as without --costs"
    assert told == f"3 shapes, 0 of them among the costs from a simulated GPU: {words}"
    assert made == planned(other, tmp_path / "again.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "5", '{"wall_s": "x"}', '{"wall_s": -1}', "[" * 10**5, '"\\ud800'])
def test_a_manifest_that_is_none_is_one_line(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    shutil.copytree(ran / "1" / "replay", tmp_path / "replay")
    (tmp_path / "replay" / "manifest.json").write_text(text)
    argv = ["shard", "plan", "--ledgers", str(ran / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--costs", str(tmp_path), "--out", str(tmp_path / "plan.json")]) == 2
    said = capsys.readouterr().err
    assert "manifest.json: not the manifest of a run" in said and said.count("\n") == 1


@pytest.mark.parametrize("spent", [None, [], {"drop": None}, {"drop": "x"}, {"drop": -1.0}, {"drop": 1e300}])
def test_seconds_that_are_none_are_one_line(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spent: Any
) -> None:
    line = {"shape_id": "sha1:0", "spent_s": spent, "arms": {}}
    (tmp_path / "journal.jsonl").write_text(json.dumps(line) + "\n")
    argv = ["shard", "plan", "--ledgers", str(ran / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--costs", str(tmp_path), "--out", str(tmp_path / "plan.json")]) == 2
    said = capsys.readouterr().err
    assert "the seconds of sha1:0 are none" in said and said.count("\n") == 1


def test_costs_of_a_folder_without_a_run_are_one_line(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["shard", "plan", "--ledgers", str(ran / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--costs", str(tmp_path), "--out", str(tmp_path / "plan.json")]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path}: no journal.jsonl in it" in said and said.count("\n") == 1
    assert not (tmp_path / "plan.json").exists()


def test_a_shard_is_never_written_over(ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = copied(ran, tmp_path)
    shutil.copytree(two, tmp_path / "all" / "results" / "2")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"}
    for out, second in ((one, two), (two, two), (tmp_path / "x" / ".." / "1", two)):
        assert merge(ran, out, one, second) == 64
        assert "would write over it; name another --out" in capsys.readouterr().err
    assert merge(ran, tmp_path / "all", one, tmp_path / "all" / "results" / "2") == 64
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


@pytest.mark.parametrize("text", ["", "no journal", '{"session_id": "s"}\n'])
def test_costs_of_a_run_that_measured_nothing_are_refused(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "journal.jsonl").write_text(text)
    argv = ["shard", "plan", "--ledgers", str(ran / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*argv, "--costs", str(tmp_path), "--out", str(tmp_path / "plan.json")]) == 2
    assert "no finished shape in it" in capsys.readouterr().err
