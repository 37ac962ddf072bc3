"""The main job, end to end with the installed flydsl on a small ledger: equal code, broken kernels, kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.codegen.toolchains import CANARIES
from tests.commands.code_rig import record_ledgers, write_ledgers
from tests.factory import decision_in
from tests.needs import needs_flydsl


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_ledgers(tmp_path_factory.mktemp("recorded") / "frozen_ledgers")


@needs_flydsl
def test_the_same_compiler_passes_and_gives_the_same_bytes(recorded: Path, tmp_path: Path) -> None:
    argv = ["run", "--ledgers", str(recorded)]
    assert run([*argv, "--out", str(tmp_path / "one")]) == 0
    assert run([*argv, "--out", str(tmp_path / "two"), "--jobs", "1"]) == 0
    decision = decision_in(tmp_path / "one")
    assert decision["gate"] == "pass"
    assert decision["decision"] not in ("promote", "promote_with_guardrails")
    assert decision["counts"]["unchanged"] == decision["counts"]["total"] == 6
    assert all(row["reasons"] == ["same_code"] for row in decision["rows"])
    for name in ("decision.json", "comment.md", "status.json", "step_summary.md", "regression_summary.md"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@needs_flydsl
def test_one_compile_serves_all_shapes_of_a_key(recorded: Path, tmp_path: Path) -> None:
    assert run(["run", "--ledgers", str(recorded), "--out", str(tmp_path)]) == 0
    records = (tmp_path / "results" / "rmsnorm" / store.CODEGEN_FILE).read_text().splitlines()
    assert [json.loads(line)["compile_key"] for line in records] == ["rmsnorm/bf16/N=2048", "rmsnorm/bf16/N=4096"]
    results = store.read_results(tmp_path / "results" / "rmsnorm" / store.RESULTS_FILE)
    assert results.problems == ()
    candidate = [row for row in results.outcomes if row.provider == "flydsl"]
    assert len(candidate) == 3
    assert {row.timing_method for row in candidate} == {"codegen"}
    assert all(row.median_us is None for row in results.outcomes)
    others = {row.benchmark_status for row in results.outcomes if row.provider != "flydsl"}
    assert others <= {"skipped", "not_configured"}
    assert "v_" in (tmp_path / "isa" / "rmsnorm_bf16_N=2048.s").read_text()


def break_kernels(folder: Path, *, file: str, old: str, new: str) -> Path:
    kernels = folder / "canaries"
    shutil.copytree(CANARIES, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    text = (kernels / file).read_text()
    assert old in text
    (kernels / file).write_text(text.replace(old, new))
    return kernels


@needs_flydsl
def test_a_kernel_that_spills_blocks(recorded: Path, tmp_path: Path) -> None:
    kernels = break_kernels(tmp_path, file="rows.py", old="THREADS = 256", new="THREADS = 64")
    assert run(["run", "--ledgers", str(recorded), "--kernels", str(kernels), "--out", str(tmp_path)]) == 1
    decision = decision_in(tmp_path)
    assert (decision["gate"], decision["decision"]) == ("block", "blocked")
    (spilled,) = [row for row in decision["rows"] if row["op_type"] == "softmax"]
    assert (spilled["verdict"], spilled["reasons"]) == ("regressed", ["codegen_fail"])
    assert spilled["code"]["base"]["spills"] == 0 < spilled["code"]["head"]["spills"]
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "failure"


@needs_flydsl
def test_a_kernel_that_no_longer_compiles_blocks_and_the_rest_is_judged(recorded: Path, tmp_path: Path) -> None:
    kernels = break_kernels(tmp_path, file="vec_add.py", old="def build(", new="raise ImportError('gone')\ndef build(")
    assert run(["run", "--ledgers", str(recorded), "--kernels", str(kernels), "--out", str(tmp_path)]) == 1
    decision = decision_in(tmp_path)
    verdicts = {row["op_type"]: row["verdict"] for row in decision["rows"]}
    assert verdicts == {"rmsnorm": "unchanged", "softmax": "unchanged", "vec_add": "newly_failed"}
    assert "ImportError" in (tmp_path / "comment.md").read_text()


@needs_flydsl
def test_without_a_baseline_everything_is_new_and_there_is_no_verdict(tmp_path: Path) -> None:
    write_ledgers(tmp_path / "ledgers")
    assert run(["run", "--ledgers", str(tmp_path / "ledgers"), "--op", "vec_add", "--out", str(tmp_path / "out")]) == 2
    decision = decision_in(tmp_path / "out")
    assert decision["gate"] == "no_verdict"
    assert decision["counts"]["new"] == decision["counts"]["total"] == 2


@needs_flydsl
def test_killed_and_resumed_it_says_what_an_undisturbed_run_says(recorded: Path, tmp_path: Path) -> None:
    argv = ["run", "--ledgers", str(recorded), "--jobs", "1", "--out"]
    assert run([*argv, str(tmp_path / "whole")]) == 0
    command = [sys.executable, "-m", "gate", *argv, str(tmp_path / "cut")]
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    kept = tmp_path / "cut" / "compiled"
    give_up = time.monotonic() + 60
    while not (kept.is_dir() and any(kept.glob("*.json"))) and time.monotonic() < give_up:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    finished = {path: path.stat().st_mtime_ns for path in kept.glob("*.json")}
    assert finished
    assert run([*argv, str(tmp_path / "cut"), "--resume"]) == 0
    assert all(path.stat().st_mtime_ns == when for path, when in finished.items())
    assert (tmp_path / "cut" / "decision.json").read_bytes() == (tmp_path / "whole" / "decision.json").read_bytes()


@needs_flydsl
def test_what_was_tampered_with_is_compiled_again(recorded: Path, tmp_path: Path) -> None:
    argv = ["run", "--ledgers", str(recorded), "--op", "vec_add", "--out", str(tmp_path)]
    assert run(argv) == 0
    (kept,) = (tmp_path / "compiled").glob("*.json")
    whole = kept.read_text()
    kept.write_text(whole.replace("v_add_f32", "v_sub_f32"))
    assert kept.read_text() != whole
    assert run([*argv, "--resume"]) == 0
    assert decision_in(tmp_path)["rows"][0]["reasons"] == ["same_code"]


FULL_DISK = """
import errno, sys
from pathlib import Path
from gate import store
from gate.cli import run
real = Path.replace
def full(self, target):
    if Path(target).name == "status.json":
        raise OSError(errno.ENOSPC, "No space left on device")
    return real(self, target)
Path.replace = full
sys.exit(run(sys.argv[1:]))
"""


@needs_flydsl
def test_a_disk_that_fills_up_leaves_no_verdict_file_behind(recorded: Path, tmp_path: Path) -> None:
    argv = ["run", "--ledgers", str(recorded), "--op", "vec_add", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", FULL_DISK, *argv], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert left.isdisjoint({"decision.json", "status.json", "comment.md", "regressions.jsonl"})


@needs_flydsl
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_cannot_be_printed_does_not_change_the_verdict(recorded: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gate", "run", "--ledgers", str(recorded), "--op", "vec_add"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*command, "--out", str(tmp_path)], check=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 0
    assert b"standard output cannot be written" in done.stderr
