"""How a command tells a problem: one line on stderr, with nothing in it that could steer the terminal."""

from __future__ import annotations

import click

from gate.model.problem import Problem
from gate.render.terminal import plain


def tell(problem: Problem) -> None:
    """Writes the problem as one line."""
    click.echo(plain(str(problem)), err=True)
