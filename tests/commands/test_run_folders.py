"""What the verbs do with an --out that holds a run: another kind, another wish, or one that measured nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from tests.commands import timed_rig as rig
from tests.commands.code_rig import told, write_ledgers
from tests.factory import decision_in
from tests.needs import needs_flydsl


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file but locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ledgers of three small ops."""
    root = tmp_path_factory.mktemp("small") / "frozen_ledgers"
    write_ledgers(root)
    return root


@pytest.fixture(scope="module")
def compiled(small: Path) -> Path:
    """What a run of machine code over two of the ops leaves."""
    out = small.parent / "compiled"
    argv = ["run", "--ledgers", str(small), "--op", "vec_add", "--op", "softmax", "--out", str(out)]
    assert run(argv) == 2  # There is no baseline yet.
    return out


@needs_flydsl
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--op", "vec_add"], "--op was softmax, vec_add there and is vec_add here"),
        (["--op", "vec_add", "--op", "softmax", "--arch", "gfx942"], "--arch was gfx950 there and is gfx942 here"),
        (["--op", "vec_add", "--op", "softmax", "--base", "."], "--base was not given there and is "),
    ],
)
def test_a_run_of_machine_code_is_not_narrowed_by_resuming_it(
    small: Path, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(compiled, out)
    assert run(["run", "--ledgers", str(small), "--out", str(out), "--resume", *more]) == 2
    (line,) = told(capsys)
    assert "holds another run: " in line and words in line and "give another --out" in line
    assert bytes_of(out) == bytes_of(compiled)


@needs_flydsl
def test_a_run_of_machine_code_is_not_gone_on_with_over_other_ledgers(
    small: Path, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = tmp_path / "out", tmp_path / "frozen_ledgers"
    shutil.copytree(compiled, out)
    shutil.copytree(small, other)
    path = other / "vec_add" / store.LEDGER_FILE
    path.write_text(path.read_text().splitlines()[0] + "\n")
    argv = ["run", "--ledgers", str(other), "--op", "vec_add", "--op", "softmax", "--out", str(out)]
    assert run([*argv, "--resume"]) == 2
    (line,) = told(capsys)
    assert "holds another run: the ledgers (vec_add/shape_ledger.jsonl) differ" in line
    assert bytes_of(out) == bytes_of(compiled)
    moved = tmp_path / "moved"
    shutil.copytree(small, moved)
    argv = ["run", "--ledgers", str(moved), "--op", "softmax", "--op", "vec_add", "--out", str(out)]
    assert run([*argv, "--resume"]) == 2
    assert {**bytes_of(out), "run.json": b""} == {**bytes_of(compiled), "run.json": b""}
    assert decision_in(out)["counts"]["new"] == 3


@needs_flydsl
@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_no_other_run_is_begun_over_a_run_of_machine_code(
    compiled: Path, ledgers: Path, tmp_path: Path, resume: list[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(compiled, out)
    session = ["replay", "--op", "rmsnorm", "--ledgers", str(ledgers), "--op-from", f"{rig.KERNELS}:OP"]
    session += ["--simulate", rig.SIM, "--head", f"path={rig.ROOT}", "--out", str(out)]
    for argv in (rig.arguments(ledgers, out), session):
        code, stderr = rig.call([*argv, *resume])
        assert code == 64 and stderr.count("\n") == 1
        assert "holds a run of machine code, whose rows and verdict these would replace; name another --out" in stderr
        assert bytes_of(out) == bytes_of(compiled)


def test_shards_are_not_merged_over_a_run(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    code, stderr = rig.call(["shard", "merge", str(slow), "--ledgers", str(ledgers), "--out", str(out)])
    assert code == 64 and "holds a timed run" in stderr and "name another --out" in stderr
    assert bytes_of(out) == bytes_of(slow)


def test_a_timed_run_that_was_asked_otherwise_keeps_its_verdict(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    for more, words in (
        (["--op", "rmsnorm"], "--op was not given there and is rmsnorm here"),
        (["--budget-us", "300"], "--budget-us was 200.0 there and is 300.0 here"),
    ):
        code, stderr = rig.call([*rig.arguments(ledgers, out, head=rig.SLOW), *more, "--resume"])
        assert code == 2 and words in stderr and stderr.count("\n") == 1
        assert bytes_of(out) == bytes_of(slow)


@pytest.fixture
def unmeasured(ledgers: Path, tmp_path: Path) -> Path:
    """What a timed run leaves that found no GPU."""
    out = tmp_path / "out"
    argv = rig.arguments(ledgers, out)
    at = argv.index("--simulate")
    code, stderr = rig.call([*argv[:at], *argv[at + 2 :], "--gpus", "99"])
    assert code == 2 and "no GPU" in stderr and (out / "replay" / "journal.jsonl").is_file()
    return out


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_timed_run_takes_over_from_one_that_measured_nothing(
    unmeasured: Path, ledgers: Path, slow: Path, resume: list[str]
) -> None:
    code, stderr = rig.call([*rig.arguments(ledgers, unmeasured, head=rig.SLOW), *resume])
    assert code == 1, stderr
    assert decision_in(unmeasured)["counts"] == decision_in(slow)["counts"]
    assert json.loads((unmeasured / "run.json").read_bytes()) == json.loads((slow / "run.json").read_bytes())


@needs_flydsl
@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_machine_code_is_judged_where_a_timed_run_found_no_gpu(
    unmeasured: Path, small: Path, capsys: pytest.CaptureFixture[str], resume: list[str]
) -> None:
    argv = ["run", "--ledgers", str(small), "--op", "vec_add", "--out", str(unmeasured), *resume]
    assert run(argv) == 2
    assert decision_in(unmeasured)["counts"]["new"] == 2
    assert not any("holds" in line for line in told(capsys))
    assert not (unmeasured / "replay").exists()


@pytest.mark.parametrize(
    "argv",
    [
        ["run", "--ledgers", "LEDGERS", "--base", "RUN", "--out", "OUT"],
        ["codegen", "diff", "RUN", "RUN"],
        ["codegen", "show", "vec_add", "--head", "RUN"],
        ["codegen", "triage", "RUN", "RUN", "--ledgers", "LEDGERS", "--out", "OUT"],
        ["baseline", "drift", "--ledgers", "LEDGERS", "--from", "RUN"],
        ["baseline", "record", "--ledgers", "LEDGERS", "--from", "RUN", "--commit", "a" * 40],
        ["judge", "--ledger", "LEDGERS", "--matrix", "LEDGERS", "--base", "RUN", "--head", "RUN", "--out", "OUT"],
    ],
)
def test_where_results_are_wanted_the_folder_of_a_run_is_told_where_they_lie(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    done = tmp_path / "done"
    for name in (store.RESULTS_FILE, store.CODEGEN_FILE):
        store.write_text(done / "results" / "vec_add" / name, "{}\n")
    places = {"LEDGERS": str(small), "RUN": str(done), "OUT": str(tmp_path / "out")}
    assert run([places.get(word, word) for word in argv]) == 2
    (line,) = told(capsys)
    assert line.startswith(f"gate: {done}: no ") and line.endswith(f"; this is a run's folder: name {done / 'results'}")
