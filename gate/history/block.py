"""Rows of a run as columns: a value that all rows share is held once, so that only the others cost time by row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from operator import attrgetter
from typing import Any

import msgspec

from gate.model.history import Row

FIELDS = Row.__struct_fields__
# Of a number 0.0 and -0.0 are equal and not the same; such columns are held once only where they are null.
NUMBERS = frozenset({name for name in FIELDS if name.endswith("_us") or name.startswith("effective_")})
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_args = msgspec.json.Decoder(dict[str, Any] | None).decode


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """`n` rows: the fields in `same` have one value in all of them, those in `each` a value by row.

    Both together are the fields of a Row. `args` is held as its JSON text with sorted keys, in bytes.
    """

    n: int
    same: Mapping[str, Any]
    each: Mapping[str, Sequence[Any]]

    def values(self, name: str) -> set[Any]:
        """The different values of a field."""
        return {self.same[name]} if name in self.same else set(self.each[name])

    def lines(self) -> list[bytes]:
        """Each row as msgspec writes a Row: one line of JSON, all fields, those of `args` sorted."""
        texts: list[Iterable[bytes]] = []
        before = b"{"
        for name in FIELDS:
            before += b'"%b":' % name.encode()
            if name in self.same:
                value = self.same[name]
                before += (value or b"null") if name == "args" else _encode(value)
            else:
                values = self.each[name]
                texts += [repeat(before, self.n), _args_texts(values) if name == "args" else _texts(values)]
                before = b""
            before += b","
        return list(map(b"".join, zip(*texts, repeat(before[:-1] + b"}", self.n), strict=True)))


Rows = Sequence[Row] | Sequence[Block]


def blocks(rows: Rows) -> Iterator[Block]:
    """Rows as blocks; blocks as they are."""
    plain = [one for one in rows if isinstance(one, Row)]
    if plain:
        columns = {name: list(map(attrgetter(name), plain)) for name in FIELDS}
        columns["args"] = [None if args is None else _encode(args) for args in columns["args"]]
        yield block(columns, {}, len(plain))
    yield from (one for one in rows if isinstance(one, Block))


def block(columns: Mapping[str, Sequence[Any]], same: Mapping[str, Any], count: int) -> Block:
    """`count` rows: those in `same` are known to have that value in every row, the other fields are in `columns`."""
    shared, each = dict(same), dict[str, Sequence[Any]]()
    for name, values in columns.items():
        first = values[0]
        if (first is None or name not in NUMBERS) and values.count(first) == count:
            shared[name] = first
        else:
            each[name] = values
    return Block(n=count, same=shared, each=each)


@lru_cache(maxsize=1 << 16)
def args_text(raw: bytes) -> bytes | None:
    """The arguments of a kernel, as a row has them, with sorted keys; None for null.

    Raises msgspec.DecodeError for what is no object.
    """
    args = _decode_args(raw)
    return None if args is None else _encode(args)


def _args_texts(values: Sequence[bytes | None]) -> list[bytes]:
    return [value or b"null" for value in values]


def _texts(values: Sequence[Any]) -> list[bytes]:
    """Each value as JSON; written as one list, which is split where no text holds a comma."""
    together = _encode(values)[1:-1].split(b",")
    return together if len(together) == len(values) else list(map(_encode, values))
