"""A folder that another gate writes to: each verb that leaves several files says so, and touches none of them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.commands import judged
from gate.model.problem import UnusableInput
from gate.resources import frozen_ledgers_dir
from tests.analysis import build

LEDGER = build.ledger(1)
SHAPE = "sha1:642f7a188d3a01e9"
RMSNORM = frozen_ledgers_dir() / "rmsnorm"


def judge(out: Path) -> list[str]:
    files = {"ledger": store.LEDGER_FILE, "matrix": store.MATRIX_FILE}
    argv = ["judge", *(f"--{option}={RMSNORM / name}" for option, name in files.items())]
    return [*argv, "--base", str(out), "--head", str(out), "--out", str(out)]


def verbs(out: Path) -> dict[str, list[str]]:
    """The command lines by name; `taken`, beside `out`, is a folder with nothing in it."""
    taken, records = out.parent / "taken", str(RMSNORM / "baselines" / "gfx950")
    to, take = ["--out", str(out)], ["artifact", "take", "--repo", "owner/name", "--run", "1"]
    return {
        "judge": judge(out),
        "artifact judge": ["artifact", "judge", "--from", str(taken), *to],
        "artifact take": [*take, "--out", str(taken), "--decision", str(out)],
        "artifact take, its rows": [*take, *to, "--decision", str(taken)],
        "report": ["report", "summary", "--from", str(out)],
        "profile": ["profile", "--op", "rmsnorm", "--shape", SHAPE, *to],
        "profile --from": ["profile", "--from", str(out.parent / "trace.json"), *to],
        "profile --decision": ["profile", "--decision", str(out), *to],
        "codegen record": ["codegen", "record", "--op", "rmsnorm", *to],
        "codegen attribute": ["codegen", "attribute", "--base-wheel", "0.4.0", "--head-wheel", "0.5.0", *to],
        "codegen triage": ["codegen", "triage", records, records, *to],
    }


@pytest.mark.parametrize("name", verbs(Path()))
def test_a_folder_that_another_gate_writes_to_is_left_alone(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    (tmp_path / "taken").mkdir()
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    judged.write(build.decide(LEDGER, build.run(LEDGER, seed=1), build.run(LEDGER, seed=2)), out)
    with store.output_lock(out):
        before = contents(tmp_path)
        assert run(verbs(out)[name]) == 2
        assert contents(tmp_path) == before
    (line,) = capsys.readouterr().err.splitlines()
    assert "another gate writes here" in line
    assert (tmp_path / "taken").is_dir()


def misused(out: Path) -> dict[str, tuple[list[str], str]]:
    """Command lines with a mistake, by name, and what is said of it."""
    take = ["artifact", "take", "--out", str(out.parent / "taken"), "--decision", str(out)]
    return {
        "judge": ([*judge(out), "--hed", "x"], "gate judge: No such option '--hed'"),
        "artifact take": ([*take, "--repo", "owner/name"], "gate: take needs --run"),
        "artifact take, no repository": ([*take, "--run", "1", "--repo", "x"], "gate: no repository: 'x'"),
    }


@pytest.mark.parametrize("name", misused(Path()))
def test_wrong_usage_is_told_although_another_gate_writes_there(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    judged.write(build.decide(LEDGER, build.run(LEDGER, seed=1), build.run(LEDGER, seed=2)), out)
    argv, words = misused(out)[name]
    with store.output_lock(out):
        before = contents(tmp_path)
        assert run(argv) == 64
        assert contents(tmp_path) == before
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(words)
    assert not (tmp_path / "taken").exists()


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file but locks: a verb that writes to two folders may hold the one before it asks for the other."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def writers(ledgers: Path, taken: Path) -> dict[str, list[str]]:
    """Command lines that write to frozen ledgers."""
    to = ["--ledgers", str(ledgers)]
    new = [*to, "--from", str(taken), "--commit", "a" * 40]
    return {
        "ledger freeze": ["ledger", "freeze", str(ledgers)],
        "ledger freeze, one op": ["ledger", "freeze", str(ledgers / "rmsnorm")],
        "ledger build": ["ledger", "build", "rmsnorm", "--out", str(ledgers)],
        "baseline record": ["baseline", "record", *new],
        "baseline promote": ["baseline", "promote", *new, "--decision", str(taken)],
        "baseline pin": ["baseline", "pin", *to, "--release", "v1"],
        "codegen record --as-baseline": ["codegen", "record", "--op", "rmsnorm", *to, "--as-baseline", str(ledgers)],
    }


@pytest.mark.parametrize("name", writers(Path(), Path()))
def test_ledgers_that_another_gate_writes_to_are_left_alone_and_get_no_file_of_a_lock(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledgers, taken = tmp_path / "ledgers", tmp_path / "taken"
    shutil.copytree(RMSNORM, ledgers / "rmsnorm")
    judged.write(build.decide(LEDGER, build.run(LEDGER, seed=1), build.run(LEDGER, seed=2)), taken)
    before = every_file(ledgers)
    with store.ledgers_lock([ledgers / "rmsnorm"]):
        assert run(writers(ledgers, taken)[name]) == 2
        assert every_file(ledgers) == before
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"gate: {ledgers / 'rmsnorm'}: another gate writes here; wait for it"
    if name.startswith("ledger"):
        assert run(writers(ledgers, taken)[name]) == 0
        assert every_file(ledgers).keys() == before.keys()


def test_where_folders_cannot_be_locked_none_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = errno.EBADF

    def flock(handle: int, how: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    with store.ledgers_lock([tmp_path / "op"]):
        assert (tmp_path / "op").is_dir()
    code = errno.EIO
    with pytest.raises(UnusableInput), store.ledgers_lock([tmp_path / "op"]):
        pass


def every_file(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_is_free_once_a_verb_has_ended(tmp_path: Path) -> None:
    records = str(RMSNORM / "baselines" / "gfx950")
    for _ in range(2):
        assert run(["codegen", "triage", records, records, "--out", str(tmp_path)]) == 0
    with store.output_lock(tmp_path):
        pass
