"""Knows how a source file becomes plain data: strict JSON, gzipped JSON or YAML; nothing that could not be written."""

from __future__ import annotations

import codecs
import re
import zlib
from typing import Any

import msgspec

from gate.model.problem import Problem, UnusableInput
from gate.model.shape import canonical
from gate.schemas.strict import NotStrict, loads, yaml_value

GZIP = b"\x1f\x8b"
# A profiler trace of a few serving steps has some hundred megabytes; more is no trace but an attack or a mistake.
LARGEST_BYTES = 1 << 31
# YAML is read some hundred times slower than JSON.
LARGEST_YAML = 1 << 26
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


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
    """The value of a JSON or YAML file in UTF-8, with or without a byte order mark.

    Raises UnusableInput with one line, with its line where that is known.
    """
    data = unpacked(data, file=file).removeprefix(codecs.BOM_UTF8)
    json_like = data.lstrip()[:1] in (b"{", b"[")
    if not json_like and len(data) > LARGEST_YAML:
        what = f"{len(data) >> 20} MiB are more than the {LARGEST_YAML >> 20} MiB that are read of YAML"
        raise UnusableInput(Problem(what=what, file=file, fix="write it as JSON"))
    try:
        value = loads(data) if json_like else yaml_value(data)
        if not json_like:
            # Refuses what JSON has no form for: NaN, dates, keys that are no strings, data inside itself.
            canonical(value)
        if not json_like or _SURROGATE.search(data):
            msgspec.json.encode(value)
    except NotStrict as error:
        raise UnusableInput(Problem(what=str(error), file=file, line=error.line)) from None
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise UnusableInput(
            Problem(what=f"not plain data: {error}" if not json_like else str(error), file=file)
        ) from None
    return value
