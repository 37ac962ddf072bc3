"""From a parsed policy or waiver document to its record, naming each wrong key and the nearest right one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from gate.model.policy import Policy
from gate.model.policy_noise import Floor
from gate.model.problem import Problem, UnusableInput
from gate.model.waiver import Waiver, WaiverFile

T = TypeVar("T", bound=msgspec.Struct)


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """One policy key: its dotted name, the value in force, the default, and what it does."""

    key: str
    value: Any
    default: Any
    text: str


def policy_from(document: Mapping[str, Any], *, file: str) -> Policy:
    """The policy of a TOML document. Raises UnusableInput that names each unknown or mistyped key."""
    return _convert(document, Policy, file=file)


def waivers_from(document: Mapping[str, Any], *, file: str) -> tuple[Waiver, ...]:
    """The waivers of a TOML document. Raises UnusableInput as `policy_from` does."""
    return _convert(document, WaiverFile, file=file).waiver


def _convert(document: Mapping[str, Any], record: type[T], *, file: str) -> T:
    unknown = list(_unknown_keys(document, record, ""))
    if unknown:
        raise UnusableInput(*(Problem(what=f"unknown key {key}", file=file, fix=fix) for key, fix in unknown))
    try:
        return msgspec.convert(document, record)
    except msgspec.ValidationError as error:
        where = str(error).rpartition(" - at `$.")
        what = f"{where[2].rstrip('`')}: {where[0]}" if where[1] else str(error)
        raise UnusableInput(Problem(what=what, file=file, fix="see gate policy explain for the key's type")) from None


def _nearest(key: str, prefix: str, fields: Iterable[str]) -> str:
    """What to write instead: the nearest key, else the keys of that table, else where all are explained."""
    near = difflib.get_close_matches(key, fields, n=1, cutoff=0.6)
    if near:
        return f"did you mean {prefix}{near[0]}?"
    return f"its keys are {', '.join(fields)}" if prefix else "see gate policy explain for every key"


def _unknown_keys(document: Any, record: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Each key that `record` does not have, dotted, and what to write instead."""
    if isinstance(document, list):
        for entry in document:
            yield from _unknown_keys(entry, record, prefix)
        return
    if not isinstance(document, Mapping):
        return
    fields = {field.name: field.type for field in msgspec.structs.fields(record)}
    for key, value in document.items():
        if key in fields:
            inner = _inner(fields[key])
            if inner is not None:
                yield from _unknown_keys(value, inner, f"{prefix}{key}.")
            continue
        yield f"{prefix}{key}", _nearest(key, prefix, fields)


def _inner(kind: Any) -> Any:
    """The struct inside a field's type, through Annotated and tuples; None where there is none."""
    while hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    arguments = getattr(kind, "__args__", ())
    if getattr(kind, "__origin__", None) is tuple and arguments:
        return _inner(arguments[0])
    return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None


def explain(policy: Policy) -> tuple[Explained, ...]:
    """Every key of the policy in order."""
    return tuple(_explain(policy, Policy(), ""))


def _explain(value: msgspec.Struct, default: msgspec.Struct, prefix: str) -> Iterator[Explained]:
    for field in msgspec.structs.fields(type(value)):
        mine, usual = getattr(value, field.name), getattr(default, field.name)
        name = f"{prefix}{field.name}"
        if isinstance(mine, msgspec.Struct) and not isinstance(mine, Floor):
            yield from _explain(mine, usual, f"{name}.")
        else:
            yield Explained(
                key=name, value=msgspec.to_builtins(mine), default=msgspec.to_builtins(usual), text=_text(field.type)
            )


def _text(kind: Any) -> str:
    """The description in a field's type."""
    return next((meta.description for meta in getattr(kind, "__metadata__", ()) if meta.description), "")
