"""`gate bisect` from a repository to the answer, on the simulated GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gate import store
from gate.cli import run
from gate.codegen.wheels import WheelError
from gate.commands.bisect_spares import Spares
from tests.bisect import repository
from tests.replay import rig


def arguments(folder: Path, hashes: list[str], *more: str, good: int = 0, bad: int = -1) -> list[str]:
    shapes = rig.shapes(1)
    if not (folder / "shape_ledger.jsonl").exists():
        rig.write_inputs(folder, ledger=shapes)
    files = ["--ledger", str(folder / "shape_ledger.jsonl"), "--matrix", str(folder / "baseline_matrix.yaml")]
    what = ["--op", "rmsnorm", "--shape", shapes[0].shape_id, "--op-from", f"{rig.KERNELS}:OP"]
    kernel = ["--entrypoint", "sim_kernel:slow", "--arm", f"path={{tree}},path={rig.ROOT}"]
    fixed = ["--simulate", rig.SIM, "--budget-us", "200", "--seed", "3", "--repo", str(folder / "repo")]
    ends = ["--good", hashes[good], "--bad", hashes[bad], "--out", str(folder / "out")]
    return ["bisect", *ends, *files, *what, *kernel, *fixed, *more]


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "bisect.json").read_text())
    return found


def test_the_commit_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factors = [1.0] * 5 + [1.08] * 4
    hashes = repository.make(tmp_path / "repo", factors=factors, same=(6,))
    assert run(arguments(tmp_path, hashes)) == 0
    found = report(tmp_path)
    assert (found["word"], found["suspects"], found["last_good"]) == ("found", [hashes[5]], hashes[4])
    assert found["slowdown"] == pytest.approx(1.08, abs=0.01)
    assert found["confirmed"] == pytest.approx(1.08, abs=0.01)
    assert found["subjects"] == ["Change 5"]
    out = capsys.readouterr().out
    assert out.startswith(f"FOUND {hashes[5][:12]}: ")
    assert "chance of a wrong answer at most 5.0%" in out
    assert repository.git(tmp_path / "repo", "status", "--porcelain") == ""
    assert repository.git(tmp_path / "repo", "worktree", "list").count("\n") == 0


def test_a_commit_that_does_not_import_is_skipped_and_leaves_a_set(tmp_path: Path) -> None:
    factors = [1.0, 1.0, None, 1.08, 1.08]
    hashes = repository.make(tmp_path / "repo", factors=factors)
    assert run(arguments(tmp_path, hashes)) == 0
    found = report(tmp_path)
    assert (found["word"], found["suspects"]) == ("found", hashes[2:4])
    skipped = [step for step in found["steps"] if step["state"] == "skipped"]
    assert [step["version"] for step in skipped] == [hashes[2]]
    assert "nothing_there" in skipped[0]["words"]


def test_a_setup_that_fails_skips_the_commit(tmp_path: Path) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0, 1.0, 1.08, 1.08])
    setup = f'echo "no compiler" >&2; test "$GATE_COMMIT" != {hashes[1]}'
    assert run(arguments(tmp_path, hashes, "--setup", setup)) == 0
    found = report(tmp_path)
    assert found["suspects"] == hashes[1:3]
    assert "--setup exited with code 1: no compiler" in next(
        s["words"] for s in found["steps"] if s["state"] == "skipped"
    )


def test_no_regression_is_said_before_anything_is_bisected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0] * 6)
    assert run(arguments(tmp_path, hashes)) == 0
    found = report(tmp_path)
    assert (found["word"], found["suspects"], len(found["steps"])) == ("no_regression", [], 1)
    assert capsys.readouterr().out.startswith("NO REGRESSION: good and bad do not differ")


def test_equal_sources_need_no_gpu(tmp_path: Path) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0] * 4, same=(1, 2, 3))
    assert run(arguments(tmp_path, hashes)) == 0
    found = report(tmp_path)
    assert (found["word"], found["process_pairs"]) == ("no_regression", 0)
    assert not (tmp_path / "out" / "logs").exists()


def test_a_killed_bisection_goes_on(tmp_path: Path) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0] * 4 + [1.08] * 5)
    command = [sys.executable, "-m", "gate", *arguments(tmp_path, hashes)]
    process = subprocess.Popen(command, cwd=rig.ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step"):
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = (tmp_path / "out" / "journal.jsonl").read_text().count('"exchange"')
    assert kept >= 4, "the code of both ends and two pairs at least"
    time.sleep(0.1)
    assert run(arguments(tmp_path, hashes)) == 2, "a state is not overwritten without being asked"
    assert run(arguments(tmp_path, hashes, "--resume")) == 0
    lines = [json.loads(line) for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines()[1:]]
    asked = [json.dumps(line["exchange"]["ask"], sort_keys=True) for line in lines]
    assert len(asked) == len(set(asked)), "nothing was measured twice"
    assert report(tmp_path)["suspects"] == [hashes[4]]


def test_the_folder_is_held_until_the_report_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0, 1.08])
    codes, end, write = [], Spares.close, store.write_json

    def second() -> None:
        with monkeypatch.context() as alone:
            alone.setattr(Spares, "close", end)
            alone.setattr(store, "write_json", write)
            codes.append(run(arguments(tmp_path, hashes, "--resume")))

    def ended(spares: Spares) -> None:
        end(spares)
        second()

    def written(path: Path, record: Any) -> None:
        second()
        write(path, record)

    monkeypatch.setattr(Spares, "close", ended)
    monkeypatch.setattr(store, "write_json", written)
    assert run(arguments(tmp_path, hashes)) == 0
    assert codes == [2, 2], "one beside the workers that end, one beside the report that is written"
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("gate: ")]
    assert len(told) == 2 and all("is writing here" in line for line in told)
    assert report(tmp_path)["suspects"] == [hashes[1]]
    assert run(arguments(tmp_path, hashes, "--resume")) == 0, "it is free afterwards"


def test_wheels_are_bisected_by_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factors = {"0.1": 1.0, "0.2": 1.0, "0.3": None, "0.4": 1.08}

    def environment(version: str, home: Path) -> str:
        del home
        if factors[version] is None:
            raise WheelError("no such wheel")
        packages = tmp_path / version / "lib" / "python3.12" / "site-packages"
        packages.mkdir(parents=True, exist_ok=True)
        text = repository.KERNEL.format(comment="", factor=factors[version], unused=0)
        (packages / "sim_kernel.py").write_text(text)
        return str(tmp_path / version / "bin" / "python")

    monkeypatch.setattr("gate.codegen.wheels.environment", environment)
    more = ["--wheels", "--versions", "0.1,0.2,0.3,0.4", "--code", "none", "--arm", f"path={rig.ROOT}"]
    assert run(arguments(tmp_path, ["0.1", "0.4"], *more)) == 0
    found = report(tmp_path)
    assert (found["word"], found["suspects"], found["last_good"]) == ("found", ["0.3", "0.4"], "0.2")
    skipped = next(step for step in found["steps"] if step["state"] == "skipped")
    assert skipped["words"] == "flydsl 0.3 does not install: no such wheel"


def test_machine_code_of_a_built_tree_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0, 1.0])
    assert run(arguments(tmp_path, hashes, "--code", "machine")) == 64
    assert "--code machine compiles with the interpreter's flydsl" in capsys.readouterr().err


def test_another_bisection_does_not_go_on_with_this_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0, 1.0, 1.0])
    assert run(arguments(tmp_path, hashes)) == 0
    assert run(arguments(tmp_path, hashes, "--resume", bad=1)) == 2
    assert "holds another run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (["--shape", "sha1:0000000000000000"], 64, "is in no ledger"),
        (["--good", "no-such-commit"], 2, "'no-such-commit' is no commit here"),
        (["--wheels", "--setup", "make"], 64, "are for commits"),
        (["--wheels", "--versions", "1,2", "--arm", f"python={sys.executable}"], 64, "must begin with"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, told: str
) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0, 1.0])
    assert run(arguments(tmp_path, hashes, *more)) == code
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("gate: ")]
    assert told in "".join(said) and len(said) <= 1


def test_a_good_end_in_the_wrong_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0, 1.0, 1.0])
    assert run(arguments(tmp_path, hashes, good=2, bad=0)) == 64
    assert "not an older commit" in capsys.readouterr().err


def test_a_good_end_that_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[None, 1.0, 1.08])
    assert run(arguments(tmp_path, hashes)) == 2
    assert "the good version cannot be measured" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nowhere", "", "--all", "HEAD:sim_kernel.py", "HEAD~99", "a" * 40])
@pytest.mark.parametrize("end", ["--good", "--bad"])
def test_a_name_that_is_no_commit_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, end: str
) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0, 1.0])
    argv = arguments(tmp_path, hashes)
    argv[argv.index(end) + 1] = name
    assert run(argv) == 2
    said = capsys.readouterr().err
    assert f"{name!r} is no commit here; " in said and said.count("\n") == 1


def test_a_file_whose_name_is_no_unicode_does_not_matter(tmp_path: Path) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0, 1.08])
    odd = os.fsencode(tmp_path / "repo") + b"/\xff\xfe.py"
    Path(os.fsdecode(odd)).write_text("x = 1\n")
    repository.git(tmp_path / "repo", "add", "-A")
    repository.git(tmp_path / "repo", "commit", "--quiet", "--amend", "--message", "Change 1")
    hashes[1] = repository.git(tmp_path / "repo", "rev-parse", "HEAD")
    assert run(arguments(tmp_path, hashes)) == 0
    assert report(tmp_path)["suspects"] == [hashes[1]]


def test_a_commit_that_moves_a_submodule_is_not_the_same_code(tmp_path: Path) -> None:
    hashes = repository.make(tmp_path / "repo", factors=[1.0])
    for commit in ("1" * 40, "2" * 40):
        entry = f"160000,{commit},thirdparty/llvm"
        repository.git(tmp_path / "repo", "update-index", "--add", "--cacheinfo", entry)
        repository.git(tmp_path / "repo", "commit", "--quiet", "-m", commit)
        hashes.append(repository.git(tmp_path / "repo", "rev-parse", "HEAD"))
    assert run(arguments(tmp_path, hashes, good=1, bad=2)) == 0
    (only,) = report(tmp_path)["steps"]
    assert only["how"] == "times", "it was measured, not taken for equal"
