"""What a timed run refuses, in one line: wrong wishes, edited ledgers, damaged files, and a folder of another run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from tests.commands import timed_rig as rig
from tests.factory import decision_in


def test_a_finished_run_is_never_begun_anew_by_accident(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    code, stderr = rig.call(rig.arguments(ledgers, out, head=rig.SLOW))
    assert code == 2 and "already holds a run; give --resume" in stderr
    assert (out / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()
    code, stderr = rig.call([*rig.arguments(ledgers, out), "--resume"])
    assert code == 2 and "holds another run: the arms (head) differ" in stderr


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run", "--head", "path=."], "--head needs --replay"),
        (["run", "--no-code"], "--no-code needs --replay"),
        (["run", "--replay", "--pr", "1"], "--pr needs --publish"),
        (["run", "--replay", "--candidate", "gluon", "--op", "rmsnorm"], "is not an enabled provider of rmsnorm"),
        (["run", "--replay", "--head", "speed=1"], "'speed=1' is not KEY=VALUE"),
        (["run", "--replay", "--stages", "diagnostic", "--op", "rmsnorm"], "no shape is of these stages"),
    ],
)
def test_wrong_wishes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    assert run([*argv, "--out", str(tmp_path / "out")]) == 64
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_without_a_gpu_there_is_one_line_and_no_verdict(
    ledgers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if Path("/dev/kfd").exists() or Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    code, stderr = rig.call(["run", "--replay", "--ledgers", str(ledgers), "--out", str(tmp_path)])
    assert code == 2 and len(stderr.splitlines()) == 1 and "no GPU" in stderr
    assert decision_in(tmp_path)["gate"] == "no_verdict"


def test_an_edited_ledger_is_not_measured(tmp_path: Path) -> None:
    root = rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rig.shapes("rmsnorm", 2)})
    path = root / "rmsnorm" / store.LEDGER_FILE
    path.write_text(path.read_text().splitlines()[0] + "\n")
    code, stderr = rig.call(rig.arguments(root, tmp_path / "out"))
    assert code == 2 and "its bytes are not those of the lock" in stderr


@pytest.mark.parametrize("name", ["run.json", "replay/manifest.json"])
@pytest.mark.parametrize("text", ["", "[]", '{"day": 5, "wall_s": "x"}', "[" * 10**5])
def test_a_file_of_its_own_that_is_damaged_is_one_line_and_no_verdict(
    slow: Path, ledgers: Path, tmp_path: Path, name: str, text: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    (out / name).write_text(text)
    argv = rig.arguments(ledgers, out, "--resume", head=rig.SLOW)
    code, stderr = rig.call(argv)
    told = [line for line in stderr.splitlines() if line.startswith("gate: ")]
    assert code == 2 and "Traceback" not in stderr
    assert len(told) == 1 and f"{name}: not " in told[0] and "remove it, then --resume" in told[0]
    assert not (out / "status.json").exists() or decision_in(out)["gate"] == "no_verdict"
    (out / name).unlink()
    assert rig.call(argv)[0] == 1
    assert (out / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()


def test_what_goes_on_leaves_no_earlier_verdict_standing(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    out, edited = tmp_path / "out", tmp_path / "ledgers"
    shutil.copytree(slow, out)
    shutil.copytree(ledgers, edited)
    path = edited / "rmsnorm" / store.LEDGER_FILE
    path.write_text(path.read_text() + "{")
    assert rig.call(rig.arguments(edited, out, "--resume", head=rig.SLOW))[0] == 2
    assert not (out / "decision.json").exists() and not (out / "status.json").exists()


def test_machine_code_is_not_judged_over_a_timed_run(
    slow: Path, ledgers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    assert run(["run", "--ledgers", str(ledgers), "--out", str(out)]) == 64
    said = capsys.readouterr().err
    assert "holds a timed run" in said and "name another --out" in said and said.count("\n") == 1
    for path in slow.rglob("*"):
        assert (
            not path.is_file()
            or path.name == ".lock"
            or (out / path.relative_to(slow)).read_bytes() == path.read_bytes()
        )
