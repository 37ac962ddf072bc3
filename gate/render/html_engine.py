"""What the HTML pages share: the template engine, which shows all text as text, and the files they carry inside."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from gate.render import words
from gate.render.escape import visible
from gate.resources import templates_dir


@cache
def engine() -> jinja2.Environment:
    """The template engine: an undefined name is an error, and what is not Markup is escaped on its way out."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_dir()),
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> str:
    """A style sheet or script of the package as text."""
    return (templates_dir() / name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Text from outside as one visible line, absent as words; our own markup as it is."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return str(words.NOT_MEASURED)
    return visible(value, limit=400) if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else value
