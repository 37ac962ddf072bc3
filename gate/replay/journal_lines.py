"""The lines of a journal: each ends with a checksum, so that one which is torn or changed is not read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

JOURNAL = "journal.jsonl"
SEAL = b', "crc32": "'


def sealed(data: bytes) -> bytes:
    """The line of a record: a checksum is its last field, so that no changed digit goes unseen."""
    return data[:-1] + SEAL + b'%08x"}\n' % crc32(data)


def _as_written(raw: bytes, *, strict: bool) -> bool:
    """Whether a line is what was written; `strict` that it must say so: lines of an earlier version do not."""
    data, seal, rest = raw.rpartition(SEAL)
    return rest == b'%08x"}\n' % crc32(data + b"}") if seal else not strict


def whole_lines(path: Path) -> Iterator[bytes]:
    """The lines that end with a newline and are a JSON object as it was written, up to the first that is not."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    strict = False
    for raw in data.splitlines(keepends=True):
        try:
            record = json.loads(raw)
        except (ValueError, RecursionError):
            return
        if not raw.endswith(b"\n") or not isinstance(record, dict) or not _as_written(raw, strict=strict):
            return
        strict = strict or SEAL in raw
        yield raw


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The journal's records; what follows a torn line is not read."""
    records: list[dict[str, Any]] = [json.loads(raw) for raw in whole_lines(path)]
    for record in records:
        record.pop("crc32", None)
    return records
