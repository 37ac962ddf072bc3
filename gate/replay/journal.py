"""The run on disk while it grows: one lock, one header, one line per finished shape; a torn last line is dropped."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gate import locks
from gate.model.problem import Problem, UnusableInput
from gate.replay import run_folder
from gate.replay.journal_lines import JOURNAL, read_lines, sealed, whole_lines

LOCK = ".lock"


class Journal:
    """Holds the folder's lock while it is open. Lines: a header, then a record of each shape in each process pair."""

    def __init__(self, folder: Path, handle: int, lock: int) -> None:
        self.folder, self._handle, self._lock = folder, handle, lock
        self._writing = threading.Lock()

    def append(self, record: dict[str, Any]) -> None:
        """Writes one line and waits until it is on disk. Raises UnusableInput when it cannot be written, or the
        journal is closed; nothing of the line is left then, for another lane may still write the next."""
        data = sealed(json.dumps(record, sort_keys=True, allow_nan=False).encode())
        with self._writing, _told(self.folder / JOURNAL):
            before = os.fstat(self._handle).st_size
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._handle, view) :]
                os.fsync(self._handle)
            except OSError:
                os.ftruncate(self._handle, before)
                raise

    def close(self) -> None:
        """Gives the lock back. A lane that an interrupt left behind can write no more."""
        with self._writing:
            os.close(self._handle)
            self._handle = -1
        os.close(self._lock)


def open_journal(
    folder: Path, *, header: dict[str, Any], resume: bool
) -> tuple[Journal, list[dict[str, Any]], dict[str, Any]]:
    """Locks `folder` and opens its journal: the journal, the shapes already finished, and the header in force.

    `header["fingerprint"]` says what is being measured; an interrupted run goes on only with the same one. Raises
    UnusableInput when another process holds the folder, and as `run_folder.claim`.
    """
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder)
    path = folder / JOURNAL
    try:
        lines = read_lines(path)
        _undamaged(path)
        if not run_folder.claim(folder, run_folder.SESSION, asked=header["fingerprint"], resume=resume):
            # Nothing was measured yet, for instance because the GPU was taken: only the same run goes on with that.
            same = resume and lines[:1] and lines[0].get("fingerprint") == header["fingerprint"]
            lines = lines if same else []
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except BaseException:
        os.close(lock)
        raise
    os.ftruncate(handle, sum(len(raw) for raw in whole_lines(path)) if lines else 0)
    journal = Journal(folder, handle, lock)
    if not lines:
        journal.append(header)
        return journal, [], header
    return journal, [line for line in lines[1:] if "shape_id" in line], lines[0]


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _refuse(
            path, f"cannot be written: {error.strerror}", "make room or name another --out, then --resume"
        ) from None


def _lock(folder: Path) -> int:
    try:
        return locks.take(folder / LOCK)
    except locks.Busy as owner:
        what, fix = f"another run (process {owner}) is writing here", "wait for it, or choose another --out"
        raise _refuse(folder, what, fix) from None


def _undamaged(path: Path) -> None:
    """Raises UnusableInput where whole lines follow one that cannot be read: to go on would remove them."""
    data = path.read_bytes() if path.exists() else b""
    good = list(whole_lines(path))
    if data[sum(map(len, good)) :].partition(b"\n")[2]:
        what = f"line {len(good) + 1} is damaged, and finished shapes follow it"
        fix = "remove that line, then --resume: its shape is measured again" if good else "begin again in another --out"
        raise _refuse(path, what, fix)


def merged(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One record per shape, in order of appearance: the blocks of its process pairs one after another.

    An arm that failed in one process has failed; its reason is that process's.
    """
    parts: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        parts.setdefault(record["shape_id"], []).append(record)
    return {shape_id: _joined(sorted(found, key=_process)) for shape_id, found in parts.items()}


def _process(record: dict[str, Any]) -> int:
    number: int = record.get("process", 0)
    return number


def _joined(found: list[dict[str, Any]]) -> dict[str, Any]:
    if len(found) == 1:
        return found[0]
    names = dict.fromkeys(name for record in found for name in record["arms"])
    arms = {name: _arm([record["arms"][name] for record in found if name in record["arms"]]) for name in names}
    environments = {side: value for record in reversed(found) for side, value in record["environments"].items()}
    cold = all(record["cold_proven"] for record in found)
    raw = [visit for record in found for visit in record["raw"]]
    return {**found[0], "arms": arms, "environments": environments, "cold_proven": cold, "raw": raw}


def _arm(parts: list[dict[str, Any]]) -> dict[str, Any]:
    chosen = next((part for part in parts if part["status"] != "ok"), parts[0])
    return {
        **chosen,
        "visits": [block for part in parts for block in part["visits"]],
        "processes": [number for part in parts for number in part["processes"]],
        "notes": list(dict.fromkeys(note for part in parts for note in part["notes"])),
        "gpu_us": sum(part["gpu_us"] for part in parts),
    }


def _refuse(path: Path, what: str, fix: str) -> UnusableInput:
    return UnusableInput(Problem(what=what, file=str(path), fix=fix))
