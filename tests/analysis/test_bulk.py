"""Reading by several processes in pieces yields what reading in one go does, faults and their lines included."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gate import bulk, store
from tests.analysis import build
from tests.analysis.test_judge_command import lay_out


def written(path: Path, *, spoil: dict[int, bytes] | None = None, blocks: bool = True) -> Path:
    results = build.run(build.ledger(12), seed=3, k=8 if blocks else None)
    lines = [store.encode(row) for row in results.outcomes]
    for index, raw in (spoil or {}).items():
        lines.insert(index, raw)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("piece_bytes", [1, 900, 5_000, 1 << 20])
def test_pieces_are_joined_to_the_same_rows_and_problems(tmp_path: Path, piece_bytes: int, blocks: bool) -> None:
    spoil = {0: b"{", 7: b"", 20: b'{"shape_id": "s", "provider": "flydsl"}', 40: b"\xff"}
    path = written(tmp_path / "results.jsonl", spoil=spoil, blocks=blocks)
    with bulk.reader(large_bytes=0, piece_bytes=piece_bytes) as read:
        found = read(path)()
    expected = store.read_measured(path)
    assert (found.outcomes, found.problems) == (expected.outcomes, expected.problems)
    assert [problem.line for problem in found.problems] == [1, 21, 41]


def test_equal_strings_are_one_object_over_all_pieces(tmp_path: Path) -> None:
    path = written(tmp_path / "results.jsonl")
    with bulk.reader(large_bytes=0, piece_bytes=2_000) as read:
        rows = read(path)().outcomes
    assert len({id(row.torch_version) for row in rows}) == 1
    assert len({id(row.provider_detail) for row in rows}) == len({row.provider_detail for row in rows})


def test_a_missing_file_is_told_when_it_is_asked_for(tmp_path: Path) -> None:
    with bulk.reader(large_bytes=0) as read:
        waiting = read(tmp_path / "absent.jsonl")
    with pytest.raises(store.UnusableInput, match="cannot read"):
        waiting()


SLOW = """
import os, sys, time
from pathlib import Path
from gate import bulk
from gate.cli import run
reader, folder = bulk.reader, Path(sys.argv[1])
def slow(path, first, last):
    opened = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.exists()]
    (folder / f"{os.getpid()}.part").write_text("\\n".join(opened))
    (folder / f"{os.getpid()}.part").rename(folder / f"{os.getpid()}.opened")
    time.sleep(600)
bulk.read_piece = slow
bulk.reader = lambda: reader(large_bytes=0, piece_bytes=1)
os.cpu_count = lambda: 2
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_that_reads_outlives_the_judge_or_holds_its_lock(tmp_path: Path, number: signal.Signals) -> None:
    words = lay_out(tmp_path)
    argv = [sys.executable, "-c", SLOW, str(tmp_path), *words]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True) as cut:
        deadline = time.monotonic() + 60
        while len(opened := list(tmp_path.glob("*.opened"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(opened) == 2
        with pytest.raises(store.UnusableInput, match="another gate writes here"), store.output_lock(tmp_path / "out"):
            pass
        cut.send_signal(number)
        try:
            # All of them hold standard error: it ends when the last of them has.
            assert cut.communicate(timeout=30)[1] == ""
        finally:
            with suppress(ProcessLookupError):
                os.killpg(cut.pid, signal.SIGKILL)
    assert cut.returncode == -number
    assert not any(str(tmp_path / "out" / ".lock") in path.read_text().splitlines() for path in opened)
    with store.output_lock(tmp_path / "out"):
        pass
