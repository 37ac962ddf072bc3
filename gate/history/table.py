"""Knows how rows of a run become columns, and what identifies a run: its content, whatever it is called."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from gate.model.history import Row, Run

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "gate.history/1"
META = b"gate.history"
_NUMBERS = frozenset({name for name in Row.__struct_fields__ if name.endswith("_us") or name.startswith("effective_")})
_FLAGS = frozenset({"correct", "stable"})
# Sorted so, rows of one series lie together and the statistics of a row group exclude most of the others.
ORDER = ("op_type", "shape_id", "provider", "side", "measured_at", "run_key")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]")


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of the store says of itself, in its footer."""

    schema: str = SCHEMA
    runs: tuple[Run, ...]


def key_of(sides: Mapping[str, Sequence[Row]]) -> str:
    """The SHA-256 of a run's rows, in hex: equal rows give an equal key, in whatever order they come."""
    digest = hashlib.sha256()
    encode = msgspec.json.Encoder(order="deterministic").encode
    for side in sorted(sides):
        lines = sorted(map(encode, sides[side]))
        digest.update(f"{side} {len(lines)}\n".encode())
        digest.update(b"\n".join(lines))
    return digest.hexdigest()


def schema() -> pa.Schema:
    """The columns of the store; fields may be added at the end, and none is ever renamed."""
    import pyarrow as pa

    # `measured_at` is UTC: a column with a zone could only be read with an extension that is fetched from elsewhere.
    kinds = {"repeat_iters": pa.int64(), **dict.fromkeys(_NUMBERS, pa.float64()), **dict.fromkeys(_FLAGS, pa.bool_())}
    fields = [("run_key", pa.string()), ("measured_at", pa.timestamp("us")), ("side", pa.string())]
    return pa.schema([*fields, *((name, kinds.get(name, pa.string())) for name in Row.__struct_fields__)])


def columns(sides: Mapping[str, Sequence[Row]], *, key: str, at: datetime) -> pa.Table:
    """The rows of one run as columns, sorted by ORDER."""
    import pyarrow as pa

    rows = [row for side in sorted(sides) for row in sides[side]]
    found: dict[str, Any] = {
        "run_key": pa.repeat(pa.scalar(key, pa.string()), len(rows)),
        "measured_at": pa.repeat(pa.scalar(at.astimezone(UTC).replace(tzinfo=None), pa.timestamp("us")), len(rows)),
        "side": pa.array([side for side in sorted(sides) for _ in sides[side]], pa.string()),
    }
    for field in schema():
        if field.name not in found:
            found[field.name] = _column(_values(rows, field.name), field.type)
    return pa.table(found, schema=schema()).sort_by([(name, "ascending") for name in ORDER])


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The values as a column; those of a run are mostly equal in all rows, which is made faster."""
    import pyarrow as pa

    if values and values.count(values[0]) == len(values):
        return pa.repeat(pa.scalar(values[0], kind), len(values))
    return pa.array(values, kind)


def _values(rows: Iterable[Row], name: str) -> list[Any]:
    if name != "args":
        return list(map(attrgetter(name), rows))
    encode = msgspec.json.Encoder(order="deterministic").encode
    return [None if row.args is None else encode(row.args).decode() for row in rows]


def runs_in(columns: pa.Table) -> dict[str, dict[str, list[Row]]]:
    """The rows of each run by side, out of columns. Raises ValueError for what no row can hold."""
    found: dict[str, dict[str, list[Row]]] = {}
    for values in columns.to_pylist():
        fields = {name: values[name] for name in Row.__struct_fields__}
        if fields["args"] is not None:
            fields["args"] = msgspec.json.decode(fields["args"])
        found.setdefault(values["run_key"], {}).setdefault(values["side"], []).append(msgspec.convert(fields, Row))
    return found


def with_runs(table: pa.Table, runs: Sequence[Run]) -> pa.Table:
    """The table with its runs written into the footer."""
    return table.replace_schema_metadata({META: msgspec.json.encode(Meta(runs=tuple(runs)), order="deterministic")})


def folder_of(arch: str | None, month: str) -> str:
    """The folder of a run inside the store; the name of the architecture comes from outside."""
    plain = _UNSAFE.sub("_", arch or "").strip(".")[:64] or "unknown"
    return f"arch={plain}/month={month}"
