"""What the main job refuses or cannot judge, in one line and without a verdict: ledgers, wishes, folders."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.resources import frozen_ledgers_dir
from tests.commands.code_rig import told, write_ledgers
from tests.factory import decision_in


def test_an_edited_ledger_is_no_verdict_and_says_so_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ledgers(tmp_path / "ledgers")
    path = tmp_path / "ledgers" / "vec_add" / store.LEDGER_FILE
    path.write_text(path.read_text().replace('"N":4096', '"N":4095'))
    assert run(["run", "--ledgers", str(tmp_path / "ledgers"), "--out", str(tmp_path / "out")]) == 2
    assert any(f"{path}:1: shape_id" in line for line in told(capsys))
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"
    assert json.loads((tmp_path / "out" / "status.json").read_text())["state"] == "error"


def test_an_edit_behind_the_lock_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ledgers(tmp_path / "ledgers")
    path = tmp_path / "ledgers" / "vec_add" / store.LEDGER_FILE
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    argv = ["run", "--ledgers", str(tmp_path / "ledgers"), "--op", "vec_add", "--out", str(tmp_path / "out")]
    assert run(argv) == 2
    assert any("its bytes are not those of the lock" in line for line in told(capsys))
    assert "ledger_refused" in decision_in(tmp_path / "out")["reasons"]


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
    decision = decision_in(tmp_path / "out")
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
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"


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


@pytest.mark.parametrize(
    ("option", "words"),
    [("--kernels", "no kernels in this folder"), ("--flydsl-checkout", "no kernels folder here")],
)
def test_a_folder_without_kernels_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, words: str
) -> None:
    (tmp_path / "kernels").mkdir()
    assert run(["run", option, str(tmp_path / "kernels"), "--out", str(tmp_path / "out")]) == 2
    (line,) = told(capsys)
    assert words in line
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"


def test_an_unknown_target_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--arch", "../gfx950", "--out", str(tmp_path / "out")]) == 64
    (second,) = told(capsys)
    assert "gfx942" in second
