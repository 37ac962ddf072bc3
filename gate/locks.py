"""A lock between processes: one file, held while its handle is open, and given back when its process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Device and inode of each file that this process, or the one that it was forked from, locked, by handle.
_TAKEN: dict[int, tuple[int, int]] = {}


class Busy(RuntimeError):
    """Another process holds the lock; the message is its number, or `unknown`."""


def take(path: Path, *, wait: bool = False, unsigned: bool = False) -> int:
    """The handle that holds the lock until it is closed; this process's number is written into the file.

    An `unsigned` lock is opened to read only and holds no number: whoever made the file owns it, and no other user may
    write to it; it may be a folder. Raises Busy if another process holds it and `wait` is not set, OSError if the file
    cannot be opened or locked.
    """
    handle = _opened(path) if unsigned else os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _owner(handle)
        os.close(handle)
        raise Busy(owner) from None
    except BaseException:
        os.close(handle)
        raise
    if not unsigned:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
    _TAKEN[handle] = _identity(handle)
    return handle


def disown() -> None:
    """In a forked process: closes the handles of its parent's locks, which it would hold on beyond its parent's end."""
    for handle, identity in _TAKEN.items():
        with suppress(OSError):  # The parent had closed it before.
            if _identity(handle) == identity:
                os.close(handle)
    _TAKEN.clear()


def _identity(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def _owner(handle: int) -> str:
    try:
        return os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
    except IsADirectoryError:
        return "unknown"


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)


@contextmanager
def held(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Holds the lock meanwhile. Raises as `take`."""
    handle = take(path, wait=wait)
    try:
        yield
    finally:
        os.close(handle)
