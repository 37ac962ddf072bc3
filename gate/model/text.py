"""Knows how outside text becomes one harmless line: nothing in it steers a terminal or a workflow's log."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

# Control, format, surrogate, private and unassigned characters, and what some readers take for a line's end.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_REPLACED = "�"


def one_line(text: str) -> str:
    """The text with each unsafe character replaced, and with nothing that a GitHub runner takes for a command.

    A runner obeys a line that begins with `::`, blanks before it or not, and `##[` anywhere in a line.
    """
    if not text.isascii() or not text.isprintable():
        text = "".join(_REPLACED if unicodedata.category(char) in _UNSAFE else char for char in text)
    text = text.replace("##[", "## [")
    return f"\\{text}" if text.lstrip().startswith("::") else text


def counted(number: int, one: str, many: str = "") -> str:
    """`1 row`, `1,500 rows`; `many` where it is not `one` with an s, as in `2 shapes are`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def cell(text: str) -> str:
    """As `one_line`, for text that a table may fold: no part of it can begin a line as a command does."""
    return one_line(text).replace("::", ": :")


def json_text(value: Any) -> str:
    """Plain data as indented ASCII JSON: the same value, in which every unsafe character is an escape."""
    text = json.dumps(value, indent=1, ensure_ascii=True)
    return text.replace("\x7f", "\\u007f").replace("##[", "#\\u0023[")
