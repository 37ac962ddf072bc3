"""The run on disk: torn lines, a second writer, another run's folder."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gate.model.problem import UnusableInput
from gate.replay.journal import open_journal
from gate.replay.journal_lines import JOURNAL, read_lines

HEADER = {"session_id": "s1", "seed": 1, "fingerprint": {"ledger": "a", "seed": None}}


def fill(folder: Path, count: int) -> None:
    journal, finished, _ = open_journal(folder, header=HEADER, resume=False)
    assert finished == []
    for index in range(count):
        journal.append({"shape_id": f"s{index}"})
    journal.close()


def test_a_resumed_run_finds_what_is_finished_and_keeps_its_session(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    header = {**HEADER, "session_id": "another", "seed": 9}
    journal, finished, in_force = open_journal(tmp_path, header=header, resume=True)
    journal.append({"shape_id": "s3"})
    journal.close()
    assert [line["shape_id"] for line in finished] == ["s0", "s1", "s2"]
    assert in_force["session_id"] == "s1" and in_force["seed"] == 1
    assert [line.get("shape_id") for line in read_lines(tmp_path / JOURNAL)] == [None, "s0", "s1", "s2", "s3"]


@pytest.mark.parametrize("cut", range(1, 50))
def test_a_torn_last_line_is_dropped_wherever_it_was_cut(tmp_path: Path, cut: int) -> None:
    fill(tmp_path, 2)
    path = tmp_path / JOURNAL
    length = len(path.read_bytes().splitlines(keepends=True)[-1])
    path.write_bytes(path.read_bytes()[:-cut])
    journal, finished, _ = open_journal(tmp_path, header=HEADER, resume=True)
    lost = -(-cut // length)
    assert len(finished) == 2 - lost
    journal.append({"shape_id": "again"})
    journal.close()
    assert [line.get("shape_id") for line in read_lines(path)] == [None, *["s0", "s1"][: 2 - lost], "again"]


def test_a_folder_with_a_run_is_not_written_over(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    with pytest.raises(UnusableInput, match="already holds a run; give --resume"):
        open_journal(tmp_path, header=HEADER, resume=False)


def test_another_run_is_not_resumed(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    other = {**HEADER, "fingerprint": {"ledger": "b", "seed": None}}
    with pytest.raises(UnusableInput, match="holds another run: ledger was a there and is b here"):
        open_journal(tmp_path, header=other, resume=True)


def test_two_processes_cannot_hold_one_folder(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    journal, _, _ = open_journal(tmp_path, header=HEADER, resume=True)
    code = (
        "from pathlib import Path; from gate.replay.journal import open_journal\n"
        f"open_journal(Path({str(tmp_path)!r}), header={HEADER!r}, resume=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "is writing here" in done.stderr
    journal.close()
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr


def test_a_run_that_measured_nothing_yet_stands_in_nobodys_way(tmp_path: Path) -> None:
    fill(tmp_path, 0)
    other = {**HEADER, "session_id": "s2", "fingerprint": {"ledger": "b", "seed": None}}
    journal, finished, in_force = open_journal(tmp_path, header=other, resume=False)
    journal.close()
    assert (finished, in_force) == ([], other)
    assert read_lines(tmp_path / JOURNAL) == [other]


@pytest.mark.parametrize(
    "damage", [b"\0" * 18 + b"\n", b"[1]\n", b'{"shape_id": "s0"\n', b"[" * 10**5 + b"\n", b"\xff\n"]
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_damaged_line_removes_no_finished_shape_after_it(tmp_path: Path, damage: bytes, at: int) -> None:
    fill(tmp_path, 3)
    path = tmp_path / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    spoiled = b"".join([*lines[:at], damage, *lines[at + 1 :]])
    path.write_bytes(spoiled)
    with pytest.raises(UnusableInput, match=f"line {at + 1} is damaged, and finished shapes follow it; "):
        open_journal(tmp_path, header=HEADER, resume=True)
    assert path.read_bytes() == spoiled
    if at:
        path.write_bytes(b"".join([*lines[:at], *lines[at + 1 :]]))
        journal, finished, _ = open_journal(tmp_path, header=HEADER, resume=True)
        journal.close()
        assert len(finished) == 2


def test_a_damaged_last_line_is_dropped(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    path = tmp_path / JOURNAL
    path.write_bytes(path.read_bytes() + b"\0\0{\n")
    journal, finished, _ = open_journal(tmp_path, header=HEADER, resume=True)
    journal.close()
    assert len(finished) == 2 and len(path.read_bytes().splitlines()) == 3


def test_no_changed_character_goes_unseen(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    path = tmp_path / JOURNAL
    whole = path.read_bytes()
    last = whole.rindex(b"{")
    for at in range(last, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert read_lines(path) == [HEADER, {"shape_id": "s0"}], whole[at:]


def test_lines_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in (HEADER, {"shape_id": "s0"})))
    journal, finished, _ = open_journal(tmp_path, header=HEADER, resume=True)
    journal.append({"shape_id": "s1"})
    journal.close()
    assert finished == [{"shape_id": "s0"}]
    assert read_lines(tmp_path / JOURNAL) == [HEADER, {"shape_id": "s0"}, {"shape_id": "s1"}]


def test_a_line_that_could_not_be_written_leaves_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, _, _ = open_journal(tmp_path, header=HEADER, resume=False)
    write, room = os.write, [20, 0]

    def fills_up(handle: int, data: memoryview) -> int:
        left = room.pop(0) if room else len(data)
        if left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[:left])

    monkeypatch.setattr(os, "write", fills_up)
    with pytest.raises(UnusableInput, match="cannot be written: No space left"):
        journal.append({"shape_id": "s0"})
    journal.append({"shape_id": "s1"})
    journal.close()
    again, finished, _ = open_journal(tmp_path, header=HEADER, resume=True)
    again.close()
    assert [line["shape_id"] for line in finished] == ["s1"]


def test_a_closed_journal_writes_into_no_other_file(tmp_path: Path) -> None:
    journal, _, _ = open_journal(tmp_path / "run", header=HEADER, resume=False)
    journal.close()
    one, two = ((tmp_path / name).open("wb") for name in ("one", "two"))
    with one, two, pytest.raises(UnusableInput, match="cannot be written"):
        journal.append({"shape_id": "s0"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == b""
