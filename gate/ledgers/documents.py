"""Knows how a source file becomes plain data: strict JSON, gzipped JSON or YAML; nothing that could not be written."""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec
import yaml

from gate.model.problem import Problem, UnusableInput
from gate.model.shape import canonical
from gate.schemas.strict import loads

GZIP = b"\x1f\x8b"
# A profiler trace of a few serving steps has some hundred megabytes; more is no trace but an attack or a mistake.
LARGEST_BYTES = 1 << 31
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class _Plain(yaml.SafeLoader):
    """YAML without aliases: they make small files into endless data."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not read", problem_mark=event.start_mark)
        return super().compose_node(parent, index)


def unpacked(data: bytes, *, file: str) -> bytes:
    """The bytes of a file that may be gzipped. Raises UnusableInput if it is damaged or larger than 2 GiB."""
    if not data.startswith(GZIP):
        return data
    try:
        reader = zlib.decompressobj(wbits=31)
        plain = reader.decompress(data, LARGEST_BYTES)
        if reader.unconsumed_tail or not reader.eof:
            raise zlib.error("cut off, or too large")
    except zlib.error as error:
        raise UnusableInput(Problem(what=f"not a whole gzip file: {error}", file=file)) from None
    return plain


def parse(data: bytes, *, file: str) -> Any:
    """The value of a JSON or YAML file. Raises UnusableInput with one line, with its line where that is known."""
    data = unpacked(data, file=file)
    json_like = data.lstrip()[:1] in (b"{", b"[")
    try:
        value = loads(data) if json_like else yaml.load(data, _Plain)
        if not json_like:
            # Refuses what JSON has no form for: NaN, dates, keys that are no strings, data inside itself.
            canonical(value)
        if not json_like or _SURROGATE.search(data):
            msgspec.json.encode(value)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        what = f"not valid YAML: {' '.join(str(problem or error).split())}"
        line = mark.line + 1 if mark is not None else None
        raise UnusableInput(Problem(what=what, file=file, line=line)) from None
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise UnusableInput(
            Problem(what=f"not plain data: {error}" if not json_like else str(error), file=file)
        ) from None
    return value
