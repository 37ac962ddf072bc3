"""Knows the one file that crosses the trust boundary: numbers and schema-checked strings, never rendered text.

A bundle is JSON lines. The first is the header; every other is `{"part": ..., "row": ...}` with a row of the part's
contract. Whoever reads one believes nothing of it: not even the commit, which must be the one that the API names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from gate.publish.archive import NotTaken
from gate.schemas.check import validator
from gate.schemas.explain import sentence
from gate.schemas.strict import loads

SCHEMA = "gate.bundle/1"
Part = Literal["base_results", "head_results", "base_code", "head_code", "confirm_base", "confirm_head"]
PARTS: tuple[str, ...] = get_args(Part)
CONTRACTS: dict[str, str] = {
    part: "codegen_records" if part.endswith("_code") else "benchmark_results" for part in PARTS
}
_SHA = re.compile(r"[0-9a-f]{40}")
_HEADER = {"schema", "head_sha", "base_sha", "counts"}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one bundle may hold at most; `number` bounds the size of any number, `depth` the nesting of a line."""

    lines: int = 100_000
    line_bytes: int = 256 << 10
    string: int = 4_000
    items: int = 20_000
    depth: int = 8
    number: float = 1e18


LIMITS = Limits()


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of each part, as the strict reader left them: every one keeps its contract's schema."""

    head_sha: str
    base_sha: str | None
    rows: dict[str, list[dict[str, Any]]]


def encode(
    parts: Mapping[str, Iterable[Any]], *, head_sha: str, base_sha: str | None, limits: Limits = LIMITS
) -> bytes:
    """The bundle's bytes; texts over the limit are shortened and say by how much.

    Raises ValueError for an unknown part, a sha that is none, and more than the limits allow.
    """
    unknown = set(parts) - set(PARTS)
    if unknown or not _SHA.fullmatch(head_sha) or not (base_sha is None or _SHA.fullmatch(base_sha)):
        raise ValueError(f"not a bundle: {', '.join(sorted(unknown)) or 'a commit is 40 hexadecimal digits'}")
    lines: list[bytes] = []
    counts: dict[str, int] = {}
    for part in PARTS:
        rows = [_shortened(msgspec.to_builtins(row), limits.string) for row in parts.get(part, ())]
        counts[part] = len(rows)
        lines += [msgspec.json.encode({"part": part, "row": row}, order="sorted") for row in rows]
    header = {"schema": SCHEMA, "head_sha": head_sha, "base_sha": base_sha, "counts": counts}
    data = b"\n".join([msgspec.json.encode(header, order="sorted"), *lines]) + b"\n"
    try:
        decode(data, head_sha=head_sha, limits=limits)
    except NotTaken as error:
        raise ValueError(f"the reader would refuse this bundle: {error}") from None
    return data


def _shortened(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        clean = value.encode("utf-8", "replace").decode("utf-8")
        return clean if len(clean) <= limit else f"{clean[: limit - 40]} …(+{len(clean) - limit + 40:,} characters)"
    if isinstance(value, dict):
        return {_shortened(key, limit): _shortened(item, limit) for key, item in value.items()}
    return [_shortened(item, limit) for item in value] if isinstance(value, (list, tuple)) else value


def decode(data: bytes, *, head_sha: str, limits: Limits = LIMITS) -> Bundle:
    """The bundle of `head_sha`. Raises NotTaken with line and reason for anything that is not exactly one."""
    lines = data.split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    if not lines:
        raise NotTaken("the bundle is empty")
    if len(lines) > limits.lines:
        raise NotTaken(f"the bundle has {len(lines):,} lines; at most {limits.lines:,}")
    header = _header(_value(lines[0], 1, limits), head_sha)
    rows: dict[str, list[dict[str, Any]]] = {part: [] for part in PARTS}
    for number, raw in enumerate(lines[1:], start=2):
        part, row = _row(_value(raw, number, limits), number)
        rows[part].append(row)
    if header["counts"] != {part: len(found) for part, found in rows.items()}:
        raise NotTaken("the header's counts are not those of the lines: the bundle is cut off or was put together")
    return Bundle(head_sha=head_sha, base_sha=header["base_sha"], rows=rows)


def _value(raw: bytes, number: int, limits: Limits) -> Any:
    if len(raw) > limits.line_bytes:
        raise NotTaken(f"line {number} has {len(raw):,} bytes; at most {limits.line_bytes:,}")
    try:
        value = loads(raw)
    except ValueError as error:
        raise NotTaken(f"line {number}: {error}") from None
    for fault in _faults(value, limits, depth=0):
        raise NotTaken(f"line {number}: {fault}")
    return value


def _faults(value: Any, limits: Limits, *, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) > limits.string:
            yield f"a text of {len(value):,} characters; at most {limits.string:,}"
        if any(0xD800 <= ord(char) <= 0xDFFF for char in value):
            yield "half a surrogate pair is no character"
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if abs(value) > limits.number:
            yield f"a number beyond {limits.number:g}"
    elif isinstance(value, (list, dict)):
        if depth >= limits.depth:
            yield f"nested deeper than {limits.depth}"
            return
        if len(value) > limits.items:
            yield f"a list of {len(value):,} items; at most {limits.items:,}"
            return
        inner = value if isinstance(value, list) else [*value.keys(), *value.values()]
        for item in inner:
            yield from _faults(item, limits, depth=depth + 1)


def _header(value: Any, head_sha: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != _HEADER or value["schema"] != SCHEMA:
        raise NotTaken(f"line 1 is not the header of {SCHEMA}")
    if value["head_sha"] != head_sha:
        raise NotTaken("the bundle is of another commit than the run")
    base = value["base_sha"]
    if base is not None and not (isinstance(base, str) and _SHA.fullmatch(base)):
        raise NotTaken("base_sha is not a commit")
    counts = value["counts"]
    if not isinstance(counts, dict) or any(type(count) is not int for count in counts.values()):
        raise NotTaken("the header's counts are no numbers")
    return value


def _row(value: Any, number: int) -> tuple[str, dict[str, Any]]:
    if not isinstance(value, dict) or set(value) != {"part", "row"} or value["part"] not in PARTS:
        raise NotTaken(f"line {number} is not a part and its row")
    fault = sentence(validator(CONTRACTS[value["part"]]).iter_errors(value["row"]))
    if fault:
        raise NotTaken(f"line {number}: {value['part']}: {fault[:300]}")
    return value["part"], value["row"]
