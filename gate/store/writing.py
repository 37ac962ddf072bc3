"""Every data file out: JSON, JSONL and CSV, written whole or not at all; and the lock of an output folder."""

from __future__ import annotations

import csv
import errno
import io
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gate import locks
from gate.model.outcome import Outcome
from gate.model.problem import Problem, UnusableInput
from gate.store.faults import io_fault

# What a file system says that locks files for writers only, or none.
UNLOCKABLE = frozenset({errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL})


def encode(record: Any) -> bytes:
    """One record as JSON: keys in a fixed order, so that equal records give equal bytes."""
    return msgspec.json.encode(record, order="sorted")


def write_text(path: Path, text: str) -> None:
    """Writes the whole file or leaves the old one: a temporary file beside it, synced, then renamed."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """As `write_text`. Raises UnusableInput if the folder cannot be written."""
    write_chunks(path, (data,))


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """As `write_bytes`, holding one chunk at a time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(chunks)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink()
            raise
    except OSError as error:
        raise io_fault("write", path, error) from None


def remove_file(path: Path) -> None:
    """Removes a file of our own making, if it is there. Raises UnusableInput where that is not possible."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise io_fault("write", path, error) from None


def remove_folder(path: Path) -> None:
    """Removes a folder of our own making with all that is in it, if it is there."""
    shutil.rmtree(path, ignore_errors=True)


def write_jsonl(path: Path, records: Iterable[Any]) -> None:
    """Records as JSON lines, atomically."""
    write_chunks(path, (encode(record) + b"\n" for record in records))


def write_json(path: Path, record: Any) -> None:
    """One record as indented JSON with sorted keys, atomically."""
    write_bytes(path, msgspec.json.format(encode(record), indent=1) + b"\n")


def write_results(path: Path, outcomes: Sequence[Outcome]) -> None:
    """benchmark_results.jsonl and, beside it, its flat projection .csv (nested fields as JSON text)."""
    write_jsonl(path, outcomes)
    fields = Outcome.__struct_fields__
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(fields)
    for outcome in outcomes:
        writer.writerow([_cell(getattr(outcome, field)) for field in fields])
    write_text(path.with_suffix(".csv"), buffer.getvalue())


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, tuple)):
        return encode(value).decode("utf-8")
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def output_lock(folder: Path) -> Iterator[None]:
    """Holds the output folder for one process. Raises UnusableInput if another one writes there now."""
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = locks.take(path)
    except locks.Busy:
        raise _busy(folder, "wait for it or name another folder") from None
    except OSError as error:
        raise io_fault("write", path, error) from None
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def ledgers_lock(folders: Iterable[Path]) -> Iterator[None]:
    """Holds the folders of ops for one process. They are made where they are missing, but no file in them is, which a
    repository would take for its own. Where the file system locks no folders none is held. Raises UnusableInput if
    another process holds one.
    """
    with ExitStack() as stack:
        for folder in sorted(set(folders)):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise io_fault("write", folder, error) from None
            try:
                stack.callback(os.close, locks.take(folder, unsigned=True))
            except locks.Busy:
                raise _busy(folder, "wait for it") from None
            except OSError as error:
                if error.errno not in UNLOCKABLE:
                    raise io_fault("write", folder, error) from None
        yield


def _busy(folder: Path, fix: str) -> UnusableInput:
    return UnusableInput(Problem(what="another gate writes here", file=str(folder), fix=fix))
