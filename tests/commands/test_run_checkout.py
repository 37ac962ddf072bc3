"""The main job over the kernels of a checkout: base compiled now or recorded before, pages, what is refused."""

from __future__ import annotations

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
from tests.codegen.records import record
from tests.commands.code_rig import told
from tests.factory import decision_in, make_shape
from tests.needs import needs_flydsl

RMSNORM = (
    "from rmsnorm import build\n"
    "def build_rmsnorm_module(N, dtype_str):\n"
    "    launcher, _ = build(dtype_str, N=N)\n"
    "    return lambda Input, Gamma, Output, m_in: launcher(Input, Gamma, Output, m_in)\n"
)
KEY = "rmsnorm/bf16/N=512"
pytestmark = pytest.mark.usefixtures("own_cache")


def checkout(root: Path, kernel: str = RMSNORM, *, threads: int = 256) -> Path:
    """A folder like a FlyDSL checkout, with one kernel."""
    (root / "kernels" / "norm").mkdir(parents=True)
    (root / "kernels" / "norm" / "rmsnorm_kernel.py").write_text(kernel)
    shutil.copy(CANARIES / "rmsnorm.py", root)
    rows = (CANARIES / "rows.py").read_text()
    assert "THREADS = 256" in rows
    (root / "rows.py").write_text(rows.replace("THREADS = 256", f"THREADS = {threads}"))
    return root


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    """One op that a checkout has a kernel for, and one that it has none for."""
    root = tmp_path / "ledgers"
    for op, sizes in {"rmsnorm": [{"M": 1, "N": 512}, {"M": 64, "N": 512}], "vec_add": [{"N": 4096}]}.items():
        rows = [make_shape(op_type=op, dtype="bf16", args=args) for args in sizes]
        store.write_jsonl(root / op / store.LEDGER_FILE, rows)
        shutil.copy(frozen_ledgers_dir() / op / store.MATRIX_FILE, root / op / store.MATRIX_FILE)
    assert run(["ledger", "freeze", str(root)]) == 0
    return root


def code_of(out: Path) -> list[dict[str, Any]]:
    return [row["code"] for row in decision_in(out)["rows"]]


@needs_flydsl
def test_equal_checkouts_pass_and_an_op_they_lack_is_out_of_scope(ledgers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    argv = ["--flydsl-checkout", str(checkout(tmp_path / "head")), "--base-checkout", str(checkout(tmp_path / "base"))]
    assert run(["run", "--ledgers", str(ledgers), *argv, "--jobs", "1", "--out", str(out)]) == 0
    decision = decision_in(out)
    assert decision["gate"] == "pass" and decision["counts"]["unchanged"] == decision["counts"]["total"] == 2
    assert "2 of 3 frozen shapes (rmsnorm); 1 other op is" in decision["scope"]
    assert {code["page"] for code in code_of(out)} == {""}
    assert json.loads((out / "pages" / "index.json").read_text()) == {}
    (row,) = store.read_codegen([out / "base_results" / "rmsnorm" / store.CODEGEN_FILE]).values()
    assert row.compile_key == KEY and row.toolchain.kernels == "flydsl" and row.source_sha


@needs_flydsl
def test_a_changed_kernel_has_a_page_and_a_recorded_base_says_the_same(ledgers: Path, tmp_path: Path) -> None:
    now, recorded = tmp_path / "now", tmp_path / "recorded"
    head, base = checkout(tmp_path / "head"), checkout(tmp_path / "base", threads=64)
    argv = ["run", "--ledgers", str(ledgers), "--jobs", "1", "--flydsl-checkout", str(head)]
    code = run([*argv, "--base-checkout", str(base), "--out", str(now)])
    pages = {one["page"] for one in code_of(now)}
    assert {one["verdict"] for one in code_of(now)} == {"warn"}
    (page,) = pages
    assert not Path(page).is_absolute() and KEY in (now / page).read_text()
    assert "no assembly here" not in (now / page).read_text()
    assert f"; see <code>{page}</code>" in (now / "comment.md").read_text()
    text = (now / "decision.json").read_text()
    assert str(tmp_path) not in text
    (what, again) = next(
        (command["what"], command["line"])
        for command in decision_in(now)["commands"]
        if command["line"].startswith("gate run")
    )
    assert '--flydsl-checkout "$FLYDSL_CHECKOUT" --base-checkout "$BASE_CHECKOUT"' in again
    assert "exit code 2, no verdict, is expected" in what
    asked = again[: again.index(" --out")].split()[2:]
    assert run([*argv, *asked, "--base-checkout", str(base), "--out", str(tmp_path / "again")]) == 2
    assert run([*argv, "--base", str(now / "base_results"), "--out", str(now)]) == 64
    assert (now / "base_results" / "rmsnorm" / store.CODEGEN_FILE).is_file() and (now / "decision.json").is_file()
    assert run([*argv, "--base", str(now / "base_results"), "--out", str(recorded)]) == code
    assert not (recorded / "base_results").exists()
    then = decision_in(recorded)
    assert {name: then[name] for name in ("rows", "gate", "environment")} == {
        name: decision_in(now)[name] for name in ("rows", "gate", "environment")
    }


@needs_flydsl
def test_baselines_of_other_kernels_are_no_base(
    ledgers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["run", "--ledgers", str(ledgers), "--jobs", "1", "--out", str(tmp_path / "out")]
    argv += ["--flydsl-checkout", str(checkout(tmp_path / "head"))]
    assert run(argv) == 2
    assert decision_in(tmp_path / "out")["counts"]["new"] == 2
    store.write_jsonl(ledgers / "rmsnorm" / "baselines" / "gfx950" / store.CODEGEN_FILE, [record("rmsnorm")])
    capsys.readouterr()
    assert run([*argv, "--resume"]) == 2
    assert "one side is FlyDSL's own kernels and the other is not" in told(capsys)[-1]
    assert run([*argv, "--base", str(tmp_path / "head")]) == 2
    assert "no codegen_records.jsonl for gfx950" in told(capsys)[-1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--base", "x", "--base-wheel", "0.5.0"], "--base and --base-wheel exclude each other"),
        (["--base-checkout", "x"], "--base-checkout needs --flydsl-checkout"),
        (["--kernels", "x", "--flydsl-checkout", "y"], "exclude each other"),
        (["--python", "x", "--wheel", "0.5.0"], "exclude each other"),
    ],
)
def test_sides_that_contradict_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    assert run(["run", "--out", str(tmp_path), *more]) == 64
    (line,) = told(capsys)
    assert words in line


def test_a_checkout_without_kernels_leaves_a_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(["run", "--out", str(out), "--flydsl-checkout", str(tmp_path)]) == 2
    assert "no kernels folder" in told(capsys)[-1]
    assert decision_in(out)["gate"] == "no_verdict"


def gone(pid: int) -> bool:
    """Whether a process has ended; one that waits to be reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@needs_flydsl
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for a process in /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_workers_at_once(ledgers: Path, tmp_path: Path, how: signal.Signals) -> None:
    marker = tmp_path / "pid"
    sleeps = (
        "import os, time, pathlib\ndef build_rmsnorm_module(N, dtype_str):\n"
        f"    part = pathlib.Path({str(marker)!r} + '.part')\n    part.write_text(str(os.getpid()))\n"
        f"    part.rename({str(marker)!r})\n    time.sleep(600)\n"
    )
    argv = ["run", "--ledgers", str(ledgers), "--flydsl-checkout", str(checkout(tmp_path / "head", sleeps))]
    command = [sys.executable, "-m", "gate", *argv, "--jobs", "1", "--out", str(tmp_path / "out")]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 60
    while not marker.exists() and child.poll() is None and time.monotonic() < give_up:
        time.sleep(0.02)
    worker = int(marker.read_text())
    os.kill(child.pid, how)
    _, words = child.communicate(timeout=30)
    assert child.returncode == 130 and "interrupted" in words and "Traceback" not in words
    assert gone(worker)
