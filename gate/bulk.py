"""Large results files read by several processes: each decodes pieces of whole lines and sends back columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import msgspec

from gate import store
from gate.analysis.plain import columns
from gate.analysis.plain.columns import Columns
from gate.model.outcome import Measured, MeasuredResults
from gate.model.problem import Problem

# Up to this many bytes, starting processes costs more than it saves.
LARGE_BYTES = 1 << 26
PIECE_BYTES = 1 << 22
Reader = Callable[[Path], Callable[[], MeasuredResults | Columns]]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one piece of a file, which has `lines` lines; problems count theirs from the start of the piece."""

    rows: Columns
    lines: int


@contextmanager
def reader(*, large_bytes: int = LARGE_BYTES, piece_bytes: int = PIECE_BYTES) -> Iterator[Reader]:
    """Starts to read a results file and returns what waits for it: the rows of `store.read_measured`, as columns.

    The processes start with the first file of more than `large_bytes`; smaller files are read when they are asked for,
    as rows.
    """
    pool: ProcessPoolExecutor | None = None

    def start(path: Path) -> Callable[[], MeasuredResults | Columns]:
        nonlocal pool
        workers = os.cpu_count() or 1
        bounds = _bounds(path, piece_bytes) if workers > 1 and _size(path) > large_bytes else []
        if not bounds:
            return lambda: store.read_measured(path)
        pool = pool or ProcessPoolExecutor(workers, mp_context=get_context("fork"))
        futures = [pool.submit(read_piece, path, first, last) for first, last in bounds]
        return lambda: _joined(futures)

    try:
        yield start
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _size(path: Path) -> int:
    """The size of a file; 0 where there is none to read, which is told when it is read."""
    return path.stat().st_size if path.is_file() and os.access(path, os.R_OK) else 0


def _bounds(path: Path, piece_bytes: int) -> list[tuple[int, int]]:
    """The pieces of a file, each of whole lines."""
    ends, size = [0], _size(path)
    with path.open("rb") as file:
        while ends[-1] < size:
            file.seek(min(ends[-1] + piece_bytes, size))
            file.readline()
            ends.append(file.tell())
    return list(pairwise(ends))


def read_piece(path: Path, first: int, last: int) -> Piece:
    """The rows in the bytes from `first` up to `last`."""
    with path.open("rb") as file:
        file.seek(first)
        data = file.read(last - first)
    rows, problems = store.decode_pieces(path, [data], Measured)
    found = columns.of_rows(rows, tuple(problems))
    for name in store.REPEATED:
        # Equal strings become one object, which is sent once.
        store.share(found.rest, name)
    return Piece(rows=found, lines=data.count(b"\n"))


def _joined(futures: Sequence[Future[Piece]]) -> Columns:
    parts: list[Columns] = []
    problems: list[Problem] = []
    before = 0
    for future in futures:
        piece = future.result()
        parts.append(piece.rows)
        problems += [msgspec.structs.replace(one, line=before + (one.line or 0)) for one in piece.rows.problems]
        before += piece.lines
    whole = columns.joined(parts)
    for name in store.REPEATED:
        store.share(whole.rest, name)
    return msgspec.structs.replace(whole, problems=tuple(problems))
