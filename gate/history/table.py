"""Knows how rows of a run become columns, and what identifies a run: its content, whatever it is called."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from gate.history.block import NUMBERS, Block, Rows, blocks
from gate.model.history import Row, Run

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "gate.history/1"
META = b"gate.history"
_FLAGS = frozenset({"correct", "stable"})
# Sorted so, rows of one series lie together and the statistics of a row group exclude most of the others.
ORDER = ("op_type", "shape_id", "provider", "side", "measured_at", "run_key")
# The columns by which queries choose rows.
CHOSEN_BY = frozenset({*ORDER, "gpu", "arch"})
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]")


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of the store says of itself, in its footer."""

    schema: str = SCHEMA
    runs: tuple[Run, ...]


def key_of(sides: Mapping[str, Rows]) -> str:
    """The SHA-256 of a run's rows, in hex: equal rows give an equal key, in whatever order they come."""
    digest = hashlib.sha256()
    for side in sorted(sides):
        lines = sorted(line for block in blocks(sides[side]) for line in block.lines())
        digest.update(f"{side} {len(lines)}\n".encode())
        digest.update(b"\n".join(lines))
    return digest.hexdigest()


def schema() -> pa.Schema:
    """The columns of the store; fields may be added at the end, and none is ever renamed."""
    import pyarrow as pa

    # `measured_at` is UTC: a column with a zone could only be read with an extension that is fetched from elsewhere.
    kinds = {"repeat_iters": pa.int64(), **dict.fromkeys(NUMBERS, pa.float64()), **dict.fromkeys(_FLAGS, pa.bool_())}
    fields = [("run_key", pa.string()), ("measured_at", pa.timestamp("us")), ("side", pa.string())]
    return pa.schema([*fields, *((name, kinds.get(name, pa.string())) for name in Row.__struct_fields__)])


def columns(sides: Mapping[str, Rows], *, key: str, at: datetime) -> pa.Table:
    """The rows of one run as columns, sorted by ORDER.

    Those that are null in every row are left out, and a string that all rows share is held once, as a dictionary.
    """
    import pyarrow as pa

    parts = [(side, block) for side in sorted(sides) for block in blocks(sides[side])]
    count = sum(block.n for _, block in parts)
    same: dict[str, Any] = {"run_key": key, "measured_at": at.astimezone(UTC).replace(tzinfo=None)}
    varied: dict[str, pa.Array] = {}
    for field in schema():
        if field.name in same:
            continue
        held = [{**block.same, "side": side}.get(field.name, block) for side, block in parts]
        first = held[0] if held else None
        if not isinstance(first, Block) and held.count(first) == len(held):
            same[field.name] = first
        else:
            pairs = zip(held, parts, strict=True)
            varied[field.name] = pa.concat_arrays([_array(one, block, field) for one, (_, block) in pairs])
    return _sorted(varied, same, count)


def _array(value: Any, block: Block, field: pa.Field) -> pa.Array:
    """One field of a block: `value` in every row, or by row where it is the block itself."""
    import pyarrow as pa

    if value is block:
        return pa.array(block.each[field.name], field.type)
    return pa.repeat(pa.scalar(value, field.type), block.n)


def _sorted(varied: Mapping[str, pa.Array], same: Mapping[str, Any], count: int) -> pa.Table:
    """Columns, sorted by ORDER, and those that have one value in all `count` rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.table(dict(varied))
    order = [(name, "ascending") for name in ORDER if name in varied]
    if order:
        rows = rows.take(pc.sort_indices(rows, order))
    first = pa.repeat(pa.scalar(0, pa.int8()), count)
    found = {}
    for field in schema():
        if field.name in varied:
            found[field.name] = rows.column(field.name)
        elif isinstance(same[field.name], str | bytes):
            found[field.name] = pa.DictionaryArray.from_arrays(first, pa.array([same[field.name]], field.type))
        elif same[field.name] is not None:
            found[field.name] = pa.repeat(pa.scalar(same[field.name], field.type), count)
    return pa.table(found)


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
