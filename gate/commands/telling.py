"""How a command tells something: one line each, with nothing in it that could steer a terminal or a workflow."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gate.model.problem import Problem
from gate.model.text import json_text, one_line


def say(text: str, *, err: bool = False) -> None:
    """Writes the text as one line on stdout, or on stderr."""
    click.echo(one_line(text), err=err)


def tell(problem: Problem) -> None:
    """Writes the problem as one line on stderr."""
    say(str(problem), err=True)


def say_json(value: Any) -> None:
    """Writes records or plain data as JSON on stdout."""
    click.echo(json_text(msgspec.to_builtins(value)))
