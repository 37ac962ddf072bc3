"""Makes the smallest JSON object that one of GitHub's own response models accepts, with any field overridden."""

from __future__ import annotations

import types
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

WHEN = "2026-11-02T10:00:00Z"
_PLAIN: dict[Any, Any] = {str: "x", int: 1, float: 1.0, bool: False, datetime: WHEN, date: WHEN[:10], Any: None}


def minimal(model: type[BaseModel], **fields: Any) -> dict[str, Any]:
    """The required fields of `model` with plain values, then `fields`; nested mappings override field by field."""
    found: dict[str, Any] = {name: _deep(value) for name, value in _required(model).items()}
    return overridden(found, fields)


def overridden(found: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in fields.items():
        there = found.get(name)
        found[name] = overridden(there, value) if isinstance(there, dict) and isinstance(value, Mapping) else value
    return found


def _deep(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _deep(item) for key, item in value.items()}
    return list(value) if isinstance(value, list) else value


@cache
def _required(model: type[BaseModel]) -> dict[str, Any]:
    return {
        info.alias or name: _value(info.annotation) for name, info in model.model_fields.items() if info.is_required()
    }


def _value(annotation: Any) -> Any:
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is Literal:
        return args[0]
    if origin in (Union, types.UnionType):
        return None if type(None) in args else _value(args[0])
    if origin is list:
        return []
    if origin is dict:
        return {}
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _required(annotation)
    return _value(args[0]) if args else {}
