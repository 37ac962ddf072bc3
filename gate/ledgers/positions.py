"""Knows on which line of its file each entry of a list stands, so that a refused entry can be found."""

from __future__ import annotations

import codecs
import json
import re

import yaml

_LIST = re.compile(r'\s*(?:\{\s*(?:"[^"\\]*"\s*:\s*(?:"[^"\\]*"|[\w.+-]+)\s*,\s*)*"\w+"\s*:\s*)?\[')
_BLANK = re.compile(r"[\s,]*")


def entry_lines(data: bytes, *, key: str) -> list[int]:
    """The line, from 1, of each entry of the list that the file is, or that its `key` holds; empty if unknown."""
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")
    return _json(text) if text.lstrip()[:1] in ("{", "[") else _yaml(text, key)


def _json(text: str) -> list[int]:
    start = _LIST.match(text)
    lines: list[int] = []
    if start is None:
        return lines
    decoder, at, counted, line = json.JSONDecoder(), start.end(), 0, 1
    while (blank := _BLANK.match(text, at)) is not None and text[blank.end() : blank.end() + 1] not in ("]", ""):
        at = blank.end()
        line += text.count("\n", counted, at)
        counted = at
        lines.append(line)
        try:
            _, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
    return lines


def _yaml(text: str, key: str) -> list[int]:
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return []
    if isinstance(node, yaml.MappingNode):
        node = next((value for name, value in node.value if name.value == key), None)
    return [item.start_mark.line + 1 for item in node.value] if isinstance(node, yaml.SequenceNode) else []
