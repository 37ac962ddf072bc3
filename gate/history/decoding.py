"""Knows how the result rows of a run are read fast: what they have in common is compared, not read again by row.

The contract of a row is `gate.model.history.Row`, decoded by the `decode` that is given. The fast way accepts only what
that one accepts; whatever it does not accept is read again that way, which names each refused line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec

from gate.history.block import FIELDS, Block, args_text, block, blocks
from gate.model.history import Row
from gate.model.problem import Problem, UnusableInput

CHUNK_BYTES = 1 << 20
# Rows that differ from the others make one piece of this size slower, not the run.
PIECE_BYTES = 1 << 15
SAMPLES = 8
_KINDS: dict[str, Any] = {**get_type_hints(Row), "args": msgspec.Raw}
_NULL: dict[str, Any] = {"args": msgspec.Raw(b"null")}
_REQUIRED = frozenset(one.name for one in msgspec.structs.fields(Row) if one.required)
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decoder = msgspec.json.Decoder(Row)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_args_of = attrgetter("args")


def read(
    files: Sequence[Path],
    *,
    regular: Callable[[Path], Path],
    decode: Callable[[Path, type[Row]], tuple[list[Row], list[Problem]]],
) -> tuple[list[Block], list[Problem]]:
    """The rows of some files, and a problem for each refused line.

    `regular` refuses what is no plain file, `decode` reads a file line by line. Raises UnusableInput for a file without
    access.
    """
    try:
        return [one for chunk in _chunks([regular(file) for file in files]) for one in _read(chunk)], []
    except (*_REFUSED, OSError, UnusableInput):
        pass
    found: list[Block] = []
    problems: list[Problem] = []
    for file in files:
        rows, refused = decode(file, Row)
        found += blocks(rows)
        problems += refused
    return found, problems


def _chunks(files: Sequence[Path]) -> Iterator[bytes]:
    """The files in pieces of whole lines, small ones together."""
    kept: list[bytes] = []
    for path in files:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                kept.append(chunk + file.readline())
                if sum(map(len, kept)) >= CHUNK_BYTES:
                    yield b"\n".join(kept)
                    kept = []
    if kept:
        yield b"\n".join(kept)


def _read(chunk: bytes) -> Iterator[Block]:
    """The rows of whole lines. Raises msgspec.DecodeError or the like for a line that is refused."""
    same, order = _shared(chunk)
    decode = _strict(tuple(same.items()), order).decode_lines
    columns: dict[str, list[Any]] = {name: [] for name in FIELDS if name not in same}
    fill = [(attrgetter(name), columns[name]) for name in columns if name != "args"]
    args = columns.get("args")
    count = 0
    others: list[Row] = []
    for piece in _pieces(chunk):
        try:
            rows = decode(piece)
        except msgspec.ValidationError:
            others += _decoder.decode_lines(piece)
            continue
        # Taken apart piece by piece, while the rows are in the processor's cache.
        count += len(rows)
        for get, column in fill:
            column.extend(map(get, rows))
        if args is not None:
            args.extend(map(args_text, map(bytes, map(_args_of, rows))))
    if count:
        yield block(columns, same, count)
    yield from blocks(others)


def _pieces(chunk: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(chunk):
        end = chunk.find(b"\n", start + PIECE_BYTES) + 1 or len(chunk)
        yield chunk[start:end]
        start = end


def _shared(chunk: bytes) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """The strings and nulls that lines from all over the chunk share, and the order of the first line's fields."""
    starts = [chunk.rfind(b"\n", 0, len(chunk) * sample // SAMPLES + 1) + 1 for sample in range(SAMPLES)]
    lines = [chunk[start : chunk.find(b"\n", start) + 1 or len(chunk)] for start in starts]
    rows = _decoder.decode_lines(b"\n".join(lines))
    if not rows:
        return {}, FIELDS
    found: dict[str, str | None] = {}
    for name in FIELDS:
        first = getattr(rows[0], name)
        if (first is None or isinstance(first, str)) and all(getattr(row, name) == first for row in rows):
            found[name] = first
    return found, tuple(_fields.decode_lines(b"\n".join(lines))[0])


@lru_cache(maxsize=16)
def _strict(same: tuple[tuple[str, str | None], ...], order: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Decodes a Row of which the fields in `same` must have that value, and whose `args` stay text.

    Fields that come in `order` are found without a search.
    """
    known = dict(same)
    fields: list[Any] = []
    for name in dict.fromkeys((*(name for name in order if name in _KINDS), *FIELDS)):
        value = known.get(name)
        expected = Literal[value] if value is not None else None if name in known else _KINDS[name]
        # A field that may be left out is null then, so that one which has a value must be there.
        needed = name in _REQUIRED or value is not None
        fields.append((name, expected) if needed else (name, expected, _NULL.get(name)))
    return msgspec.json.Decoder(msgspec.defstruct("Alike", fields, kw_only=True, gc=False))
