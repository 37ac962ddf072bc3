"""Large results files read by several processes: each decodes pieces of whole lines and sends back columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from copy import copy
from itertools import pairwise, repeat
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from gate import store, workers
from gate.analysis.plain import columns
from gate.analysis.plain.columns import Columns
from gate.model.outcome import Measured, MeasuredResults

# Up to this many bytes, starting processes costs more than it saves.
LARGE_BYTES = 1 << 26
PIECE_BYTES = 1 << 22
Reader = Callable[[Path], Callable[[], MeasuredResults | Columns]]


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """Rows as they are sent: fields equal in all `n` rows once, the others as columns."""

    n: int
    same: dict[str, Any]
    columns: dict[str, Sequence[Any]]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one piece of a file, which has `lines` lines; problems count theirs from the start of the piece.

    `rest` are the rows that `rows` lacks of its own rest.
    """

    rows: Columns
    rest: Packed
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
        processes = os.cpu_count() or 1
        bounds = _bounds(path, piece_bytes) if processes > 1 and _size(path) > large_bytes else []
        if not bounds:
            return lambda: store.read_measured(path)
        pool = pool or ProcessPoolExecutor(processes, get_context("fork"), initializer=workers.begin)
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
    rest = _packed(found.rest)
    return Piece(rows=msgspec.structs.replace(found, rest=()), rest=rest, lines=data.count(b"\n"))


def _packed(rows: Sequence[Measured]) -> Packed:
    same: dict[str, Any] = {}
    columns: dict[str, Sequence[Any]] = {}
    for name in Measured.__struct_fields__ if rows else ():
        column = list(map(attrgetter(name), rows))
        if column.count(column[0]) == len(column):
            same[name] = column[0]
        else:
            # Equal strings become one object, which is sent once.
            columns[name] = _shared(column, {}) if name in store.REPEATED else column
    return Packed(n=len(rows), same=same, columns=columns)


def _unpacked(packed: Packed, kept: dict[Any, Any]) -> tuple[Measured, ...]:
    """The rows; `kept` holds the strings that earlier pieces brought."""
    if not packed.n:
        return ()
    first = {name: column[0] for name, column in packed.columns.items()}
    same = {name: kept.setdefault(value, value) if type(value) is str else value for name, value in packed.same.items()}
    rows = tuple(map(copy, repeat(Measured(**same, **first), packed.n)))
    for name, column in packed.columns.items():
        values = _shared(column, kept) if name in store.REPEATED else column
        for row, value in zip(rows, values, strict=True):
            setattr(row, name, value)
    return rows


def _shared(column: Sequence[Any], kept: dict[Any, Any]) -> list[Any]:
    """The column with equal values as one object each, the one in `kept` where there is one."""
    keep = kept.setdefault
    return [keep(value, value) for value in column]


def _joined(futures: Sequence[Future[Piece]]) -> Columns:
    parts: list[Columns] = []
    kept: dict[Any, Any] = {}
    before = 0
    for future in futures:
        piece = future.result()
        problems = [msgspec.structs.replace(one, line=before + (one.line or 0)) for one in piece.rows.problems]
        rest = _unpacked(piece.rest, kept)
        parts.append(msgspec.structs.replace(piece.rows, rest=rest, problems=tuple(problems)))
        before += piece.lines
    return columns.joined(parts)
