"""An interpreter that is there and cannot be started: one line that says which, why and what to do, exit code 2."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest

from gate import cli
from gate.cli import run
from gate.commands.starting import arms_start
from gate.model.problem import UnusableInput
from gate.replay.arms import ArmSpec
from tests.commands import timed_rig as rig
from tests.factory import decision_in

FIX = "make its environment again, or name another interpreter"
WHY = {
    "#!/nowhere/python3\n": "its first line names /nowhere/python3: No such file or directory",
    "#!/etc -I\n": "its first line names /etc -I: Permission denied",
    "no mark\n": "Exec format error",
}


def script(folder: Path, text: str) -> Path:
    path = folder / "python"
    path.write_text(text)
    path.chmod(0o755)
    return path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("gate: ")]
    assert len(lines) == 1, lines
    return lines[0]


# Programs that start and are no Python, and what they said.
NO_WORKERS = {
    "exit 3": "the worker exited with code 3 during wake",
    "echo garbage": "the worker exited with code 0 during wake: garbage",
    "echo garbage; echo its reason >&2; exit 4": "the worker exited with code 4 during wake: its reason",
    "printf 'a\\033[1mb'; exit 1": "the worker exited with code 1 during wake: a�[1mb",
    "read question; echo '[1]'; sleep 60": "the answer to wake is not a worker's: [1]",
    "exec cat": "the answer to wake is not a worker's: {",
    "kill -SEGV $$": "the worker crashed with a segmentation fault during wake",
}


@pytest.mark.parametrize(("body", "why"), NO_WORKERS.items())
def test_what_starts_and_is_no_python_is_told_with_its_last_words(
    tmp_path: Path, ledgers: Path, capsys: pytest.CaptureFixture[str], body: str, why: str
) -> None:
    python = script(tmp_path, f"#!/bin/sh\n{body}\n")
    assert run(rig.arguments(ledgers, tmp_path / "out", base=f",python={python}")) == 2
    told = said(capsys)
    assert told.startswith(f"gate: {python}: the interpreter of base did not answer as a worker: {why}")
    assert told.endswith("; name a Python that has torch, as --base python=PATH, with an environment it starts in")
    found = decision_in(tmp_path / "out")
    assert (found["gate"], found["reasons"]) == ("no_verdict", ["unusable_input"])


def test_a_worker_that_opens_no_gpu_is_still_no_gpu(
    tmp_path: Path, ledgers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").write_text("")
    argv = rig.arguments(ledgers, tmp_path / "out", sim=f"{rig.SIM},gone={tmp_path / 'gone'}")
    assert run(argv) == 2
    assert said(capsys).startswith("gate: no GPU: ")


@pytest.mark.parametrize("verb", ["replay", "correctness"])
@pytest.mark.parametrize(("text", "why"), WHY.items())
def test_a_measuring_verb_says_why_an_interpreter_does_not_start(
    tmp_path: Path, ledgers: Path, capsys: pytest.CaptureFixture[str], verb: str, text: str, why: str
) -> None:
    python = script(tmp_path, text)
    argv = [verb, "--op", "rmsnorm", "--ledgers", str(ledgers), "--op-from", f"{rig.KERNELS}:OP", "--simulate", rig.SIM]
    assert run([*argv, "--out", str(tmp_path / "out"), "--head", f"path={rig.ROOT}", "--base", f"python={python}"]) == 2
    assert said(capsys) == f"gate: {python}: the interpreter of base cannot be started: {why}; {FIX}"


def test_a_timed_run_leaves_a_decision_without_a_verdict(
    tmp_path: Path, ledgers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = script(tmp_path, "#!/nowhere/python3\n")
    assert run(rig.arguments(ledgers, tmp_path / "out", head=f",python={python}")) == 2
    assert "the interpreter of head cannot be started" in said(capsys)
    found = decision_in(tmp_path / "out")
    assert (found["gate"], found["reasons"]) == ("no_verdict", ["unusable_input"])
    assert found["problems"][0].startswith("python: the interpreter of head cannot be started: its first line names")


def test_an_interpreter_that_goes_away_meanwhile_is_told_too(tmp_path: Path) -> None:
    gone = str(tmp_path / "python")
    arms = {"head": ArmSpec(), "base": ArmSpec(python=gone)}
    with pytest.raises(UnusableInput, match=r"interpreter of base cannot be started: No such file"), arms_start(arms):
        subprocess.run([gone], check=False)
    with pytest.raises(OSError, match="No space"), arms_start(arms):
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "log"))


def test_any_other_program_is_not_told_to_make_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    python = script(tmp_path, "#!/nowhere/python3\n")
    monkeypatch.setattr(cli.cli, "main", lambda **_: subprocess.run([str(python)], check=False))
    assert run(["doctor"]) == 2
    why = WHY["#!/nowhere/python3\n"]
    assert said(capsys) == f"gate: {python}: the program cannot be started: {why}; {FIX}"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.ENOENT])
def test_a_place_that_takes_no_output_still_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(**_: object) -> None:
        raise OSError(number, "refused", str(tmp_path / "out"))

    monkeypatch.setattr(cli.cli, "main", fails)
    assert run(["doctor"]) == 2
    assert said(capsys) == f"gate: {tmp_path / 'out'}: refused; make room, or name another place"
