"""Knows strict JSON and strict YAML: UTF-8, no key twice, nothing that the other could not hold; faults are short."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Hashable
from typing import Any, NoReturn

import yaml

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class NotStrict(ValueError):
    """The text is not what it should be; `line` counts from 1 and is None where the whole text is meant."""

    def __init__(self, what: str, *, line: int | None = None) -> None:
        super().__init__(what)
        self.line = line


def utf8(data: bytes) -> str:
    """The text of the bytes. Raises NotStrict if they are not UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        looks = ", it looks like UTF-16" if data.startswith(_UTF16) else ""
        raise NotStrict(f"not UTF-8 at byte {error.start}{looks}; save it as UTF-8") from None
    if "\0" in text:
        raise NotStrict("it holds a zero byte, as UTF-16 and binary files do; save it as UTF-8")
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number; write null where there is none")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large for a number")
    return value


def _whole(text: str) -> int:
    # Python itself refuses to read more digits; 2^63 has 19.
    if len(text) > 40:
        raise ValueError(f"{text[:20]}... has {len(text)} digits, too large for a number")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return record


def loads(data: bytes) -> Any:
    """The value of strict JSON bytes. Raises ValueError with one sentence for anything else."""
    try:
        return json.loads(
            utf8(data),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_unique,
        )
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno} column {error.colno}"
        raise ValueError(f"not valid JSON at {where}: {error.msg}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


class _Strict(yaml.SafeLoader):
    """YAML without aliases, which make small files into endless data, and without a key that stands twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not read", problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                name = self.construct_object(key)
                if name in seen:
                    what = f"the key {str(name)[:60]!r} stands twice in one mapping"
                    raise yaml.MarkedYAMLError(problem=what, problem_mark=key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, OverflowError) as error:
            # A number or a date that only looks like one.
            raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from None


def yaml_value(data: bytes) -> Any:
    """The value of a strict YAML document; a UTF-8 byte order mark is let pass. Raises NotStrict with its line."""
    try:
        return yaml.load(utf8(data.removeprefix(codecs.BOM_UTF8)), _Strict)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        what = " ".join(str(problem or getattr(error, "reason", None) or error).split())
        raise NotStrict(f"not valid YAML: {what}", line=mark.line + 1 if mark is not None else None) from None
    except RecursionError:
        raise NotStrict("not valid YAML: nested too deeply") from None
