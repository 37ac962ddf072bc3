"""Knows how one JSON Schema fault reads as a short clause for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jsonschema.exceptions import ValidationError

MOST = 3


def clause(error: ValidationError) -> str:
    """`field: what is wrong`, with long values cut."""
    where = _where(error)
    return f"{where}: {_fault(error)}" if where else _fault(error)


def sentence(errors: Iterable[ValidationError]) -> str:
    """The clauses of one record's faults, the first few spelled out, the others counted."""
    clauses = sorted({clause(error) for error in errors})
    rest = len(clauses) - MOST
    return "; ".join(clauses[:MOST]) + (f"; and {rest} more" if rest > 0 else "")


def _where(error: ValidationError) -> str:
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _fault(error: ValidationError) -> str:
    wanted: Any = error.validator_value
    instance: Any = error.instance
    if error.validator == "required":
        missing = [key for key in wanted if key not in instance]
        return "lacks " + ", ".join(missing)
    if error.validator == "anyOf":
        return f"{_value(error.instance)} is not {_alternatives(wanted)}"
    if error.validator == "enum":
        return f"{_value(error.instance)} is not {_alternatives([error.schema])}"
    if error.validator == "type":
        return f"{_value(error.instance)} is not {_alternatives([error.schema])}"
    if error.validator == "pattern":
        return f"{_value(error.instance)} does not match {wanted}"
    if error.validator == "maxLength":
        return f"is {len(instance)} characters long, {wanted} at most"
    return _cut(error.message, 160)


def _alternatives(schemas: Iterable[Any]) -> str:
    words: list[str] = []
    for schema in schemas:
        if "enum" in schema:
            words += [str(value) for value in schema["enum"]]
        elif "type" in schema:
            words.append(str(schema["type"]))
        elif "$ref" in schema:
            words.append(schema["$ref"].rsplit("/", 1)[-1])
    return "one of " + ", ".join(words) if len(words) > 1 else "".join(words)


def _value(value: Any) -> str:
    return _cut(repr(value), 60)


def _cut(text: str, width: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 3] + "..."
