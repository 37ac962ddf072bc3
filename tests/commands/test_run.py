"""The main job, end to end with the installed flydsl on a small ledger: equal code, broken kernels, bad inputs."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gate import store
from gate.cli import run
from gate.codegen.toolchains import CANARIES
from gate.resources import frozen_ledgers_dir
from tests.factory import make_shape

needs_flydsl = pytest.mark.skipif(
    importlib.util.find_spec("flydsl") is None,
    reason="compiles with flydsl, which is not installed here: pip install 'flydsl-gate[codegen]'",
)
SHAPES = {
    "rmsnorm": [{"M": 1, "N": 2048}, {"M": 32, "N": 2048}, {"M": 1, "N": 4096}],
    "softmax": [{"M": 1, "N": 28672}],
    "vec_add": [{"N": 4096}, {"N": 8192}],
}


def write_ledgers(root: Path) -> None:
    """Ledgers and matrices of the three small ops, with the matrices that the project freezes."""
    for op, args in SHAPES.items():
        # Rows of f32: the cheapest ones to compile that spill when a quarter of the threads must hold them.
        dtype = "f32" if op == "softmax" else "bf16"
        rows = [make_shape(op_type=op, dtype=dtype, args=one) for one in args]
        store.write_jsonl(root / op / store.LEDGER_FILE, rows)
        shutil.copy(frozen_ledgers_dir() / op / store.MATRIX_FILE, root / op / store.MATRIX_FILE)
    assert run(["ledger", "freeze", str(root)]) == 0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ledgers whose baseline is the installed flydsl itself."""
    root = tmp_path_factory.mktemp("recorded") / "frozen_ledgers"
    write_ledgers(root)
    assert run(["codegen", "record", "--as-baseline", str(root), "--ledgers", str(root)]) == 0
    assert run(["ledger", "freeze", str(root)]) == 0
    return root


def decision_of(out: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((out / "decision.json").read_text())
    return loaded


@needs_flydsl
def test_the_same_compiler_passes_and_gives_the_same_bytes(recorded: Path, tmp_path: Path) -> None:
    argv = ["run", "--ledgers", str(recorded)]
    assert run([*argv, "--out", str(tmp_path / "one")]) == 0
    assert run([*argv, "--out", str(tmp_path / "two"), "--jobs", "1"]) == 0
    decision = decision_of(tmp_path / "one")
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
    decision = decision_of(tmp_path)
    assert (decision["gate"], decision["decision"]) == ("block", "blocked")
    (spilled,) = [row for row in decision["rows"] if row["op_type"] == "softmax"]
    assert (spilled["verdict"], spilled["reasons"]) == ("regressed", ["codegen_fail"])
    assert spilled["code"]["base"]["spills"] == 0 < spilled["code"]["head"]["spills"]
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "failure"


@needs_flydsl
def test_a_kernel_that_no_longer_compiles_blocks_and_the_rest_is_judged(recorded: Path, tmp_path: Path) -> None:
    kernels = break_kernels(tmp_path, file="vec_add.py", old="def build(", new="raise ImportError('gone')\ndef build(")
    assert run(["run", "--ledgers", str(recorded), "--kernels", str(kernels), "--out", str(tmp_path)]) == 1
    decision = decision_of(tmp_path)
    verdicts = {row["op_type"]: row["verdict"] for row in decision["rows"]}
    assert verdicts == {"rmsnorm": "unchanged", "softmax": "unchanged", "vec_add": "newly_failed"}
    assert "ImportError" in (tmp_path / "comment.md").read_text()


@needs_flydsl
def test_without_a_baseline_everything_is_new_and_there_is_no_verdict(tmp_path: Path) -> None:
    write_ledgers(tmp_path / "ledgers")
    assert run(["run", "--ledgers", str(tmp_path / "ledgers"), "--op", "vec_add", "--out", str(tmp_path / "out")]) == 2
    decision = decision_of(tmp_path / "out")
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


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_an_edited_ledger_is_no_verdict_and_says_so_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ledgers(tmp_path / "ledgers")
    path = tmp_path / "ledgers" / "vec_add" / store.LEDGER_FILE
    path.write_text(path.read_text().replace('"N":4096', '"N":4095'))
    assert run(["run", "--ledgers", str(tmp_path / "ledgers"), "--out", str(tmp_path / "out")]) == 2
    assert any(f"{path}:1: shape_id" in line for line in told(capsys))
    assert decision_of(tmp_path / "out")["gate"] == "no_verdict"
    assert json.loads((tmp_path / "out" / "status.json").read_text())["state"] == "error"


def test_an_edit_behind_the_lock_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ledgers(tmp_path / "ledgers")
    path = tmp_path / "ledgers" / "vec_add" / store.LEDGER_FILE
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    argv = ["run", "--ledgers", str(tmp_path / "ledgers"), "--op", "vec_add", "--out", str(tmp_path / "out")]
    assert run(argv) == 2
    assert any("its bytes are not those of the lock" in line for line in told(capsys))
    assert "ledger_refused" in decision_of(tmp_path / "out")["reasons"]


def test_a_ledger_without_a_lock_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ledgers(tmp_path / "ledgers")
    (tmp_path / "ledgers" / "vec_add" / "ledger.lock.json").unlink()
    argv = ["run", "--ledgers", str(tmp_path / "ledgers"), "--op", "vec_add", "--out", str(tmp_path / "out")]
    assert run(argv) == 2
    assert any("the ledger is not frozen; 'gate ledger freeze'" in line for line in told(capsys))


def test_an_op_without_a_kernel_is_not_green(tmp_path: Path) -> None:
    shapes = tmp_path / "ledgers"
    write_ledgers(shapes)
    for name in (store.LEDGER_FILE, store.MATRIX_FILE):
        (shapes / "flash_attn").mkdir(exist_ok=True)
        shutil.copy(frozen_ledgers_dir() / "flash_attn" / name, shapes / "flash_attn" / name)
    assert run(["ledger", "freeze", str(shapes)]) == 0
    assert run(["run", "--ledgers", str(shapes), "--op", "flash_attn", "--out", str(tmp_path / "out")]) == 2
    decision = decision_of(tmp_path / "out")
    assert decision["counts"]["not_run"] == decision["counts"]["total"] > 0


def test_an_interpreter_without_flydsl_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ledgers(tmp_path / "ledgers")
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E -I "$@"\n')
    bare.chmod(0o755)
    argv = ["run", "--ledgers", str(tmp_path / "ledgers"), "--python", str(bare), "--out", str(tmp_path / "out")]
    assert run(argv) == 2
    (line,) = told(capsys)
    assert "pip install" in line
    assert decision_of(tmp_path / "out")["gate"] == "no_verdict"


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["--op", "nosuch"], 64, "not in the ledgers: nosuch"),
        (["--shape", "sha1:0"], 64, "not in the ledgers: sha1:0"),
        (["--ledgers", "/nonexistent"], 2, "/nonexistent: cannot read"),
    ],
)
def test_wrong_wishes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, words: str
) -> None:
    assert run(["run", "--out", str(tmp_path), *more]) == code
    (line,) = told(capsys)
    assert words in line


def test_a_second_run_into_the_same_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with store.output_lock(tmp_path):
        assert run(["run", "--out", str(tmp_path)]) == 2
    (line,) = told(capsys)
    assert "another gate writes here" in line


@needs_flydsl
def test_what_was_tampered_with_is_compiled_again(recorded: Path, tmp_path: Path) -> None:
    argv = ["run", "--ledgers", str(recorded), "--op", "vec_add", "--out", str(tmp_path)]
    assert run(argv) == 0
    (kept,) = (tmp_path / "compiled").glob("*.json")
    whole = kept.read_text()
    kept.write_text(whole.replace("v_add_f32", "v_sub_f32"))
    assert kept.read_text() != whole
    assert run([*argv, "--resume"]) == 0
    assert decision_of(tmp_path)["rows"][0]["reasons"] == ["same_code"]


def test_a_folder_without_kernels_and_an_unknown_target_are_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernels").mkdir()
    assert run(["run", "--kernels", str(tmp_path / "kernels"), "--out", str(tmp_path / "out")]) == 64
    assert run(["run", "--arch", "../gfx950", "--out", str(tmp_path / "out")]) == 64
    first, second = told(capsys)
    assert "no kernels in this folder" in first
    assert "gfx942" in second


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
