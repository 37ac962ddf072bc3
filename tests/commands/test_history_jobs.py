"""`gate history add --jobs`: however many processes read runs, the store and what is said are the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytest.importorskip("ruptures")

from gate import store
from gate.cli import run
from gate.commands import history_files
from tests.analysis import build

LEDGER = build.ledger(3)
RUNS = 20
MIDDLE = RUNS // 2


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """Runs of 12 rows, each measured a day after the one before."""
    made = []
    for seed in range(RUNS):
        path = tmp_path / "runs" / f"{seed:02d}" / "head" / store.RESULTS_FILE
        store.write_jsonl(path, build.run(LEDGER, seed=seed).outcomes)
        os.utime(path, (1_700_000_000 + 86_400 * seed,) * 2)
        made.append(path.parent.parent)
    return made


def add(folder: Path, sources: list[Path], jobs: int) -> int:
    return run(["history", "add", "--store", str(folder), "--jobs", str(jobs), *map(str, sources)])


def stored(folder: Path) -> dict[str, bytes]:
    """All files below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def files_in(folder: Path) -> int:
    """How many runs are in the store."""
    return len(list(folder.glob("*/*/[!.]*.parquet")))


def test_files_words_and_exit_code_are_those_of_one_process(
    sources: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A refused row, a run that comes again under a later time, a folder that is not there.
    refused = next(sources[MIDDLE].rglob("*.jsonl"))
    refused.write_text(refused.read_text().replace('"graph_slope"', '"stopwatch"', 1))
    again = tmp_path / "again" / store.RESULTS_FILE
    again.parent.mkdir()
    again.write_bytes(next(sources[MIDDLE - 1].rglob("*.jsonl")).read_bytes())
    asked = [*sources[: MIDDLE + 2], again.parent, tmp_path / "none", *sources[MIDDLE + 2 :]]
    readers = tmp_path / "readers"
    read = history_files.read

    def told(source: Path) -> object:
        with readers.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return read(source)

    monkeypatch.setattr(history_files, "read", told)
    found = []
    for jobs in (1, 3):
        folder = tmp_path / "history"
        for _ in range(2):
            code = add(folder, asked, jobs)
            found.append((code, *capsys.readouterr(), stored(folder)))
        folder.rename(tmp_path / f"history-{jobs}")
        by = set(readers.read_text().split())
        readers.unlink()
        assert (by == {str(os.getpid())}) == (jobs == 1)
    assert found[:2] == found[2:]
    (code, out, err, files), (_, later, _, _) = found[:2]
    assert code == 2 and len(files) == 2 * (RUNS - 1)
    assert f"{again.parent}: in the history already, as " in out
    assert f"{RUNS - 1} of {RUNS + 2} runs added, 228 rows; 2 refused" in out
    assert f"0 of {RUNS + 2} runs added" in later
    assert err.index(f"{refused}:1: refused") < err.index("no such file or folder")


def test_a_store_that_cannot_be_written_is_told_run_by_run(
    sources: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file" / "history"
    blocked.parent.write_text("")
    said = []
    for jobs in (1, 3):
        assert add(blocked, sources, jobs) == 2
        said.append(tuple(capsys.readouterr()))
    assert said[0] == said[1] and said[0][1].count("cannot write: Not a directory") == RUNS


def test_a_reader_that_is_killed_is_one_line_and_the_runs_before_it_stay(
    sources: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, parent, folder = history_files.read, os.getpid(), tmp_path / "history"

    def fatal(source: Path) -> object:
        if source == sources[MIDDLE] and os.getpid() != parent:
            # Not before the runs ahead of it are in the store: a process that dies takes down those that read.
            deadline = time.monotonic() + 60
            while files_in(folder) < MIDDLE and time.monotonic() < deadline:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return read(source)

    monkeypatch.setattr(history_files, "read", fatal)
    assert add(folder, sources, 2) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("history: ")]
    what = "not added, nor the runs after it: a process that reads runs was killed, perhaps for want of memory"
    assert lines == [f"gate: {sources[MIDDLE]}: {what}; run it again with --jobs 1"]
    whole = tmp_path / "whole"
    assert add(whole, sources[:MIDDLE], 1) == 0
    assert stored(folder) == stored(whole)
    assert add(folder, sources, 1) == add(whole, sources, 1) == 0
    assert stored(folder) == stored(whole)


SLOW = """
import sys, time
from pathlib import Path
from gate.cli import run
from gate.commands import history_files
read = history_files.read
def slow(source):
    if source == Path(sys.argv[2]):
        Path(sys.argv[1], "reached").touch()
        while not Path(sys.argv[1], "go").exists():
            time.sleep(0.01)
    return read(source)
history_files.read = slow
sys.exit(run(["history", "add", "--jobs", "2", "--store", *sys.argv[3:]]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_what_is_cut_leaves_whole_files_and_no_process(
    sources: list[Path], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    folder, reached = tmp_path / "history", tmp_path / "reached"
    argv = [sys.executable, "-c", SLOW, *map(str, (tmp_path, sources[MIDDLE], folder, *sources))]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True) as cut:
        deadline = time.monotonic() + 60
        while not (reached.exists() and files_in(folder) == MIDDLE) and time.monotonic() < deadline:
            time.sleep(0.01)
        # The other reader has nothing more to do by then: Ctrl-C, as a terminal does it, reaches it too.
        time.sleep(0.5)
        (os.killpg if number == signal.SIGINT else os.kill)(cut.pid, number)
        if number == signal.SIGINT:
            (tmp_path / "go").touch()
        # All of them hold standard error: it ends when the last of them has.
        err = cut.communicate(timeout=60)[1]
    assert cut.returncode == code
    assert "Traceback" not in err and (number != signal.SIGINT or "gate: interrupted; run it again" in err)
    assert add(tmp_path / "whole", sources[:MIDDLE], 1) == 0
    assert stored(folder) == stored(tmp_path / "whole")
