"""Options without a part in what is asked for: one that was typed is refused, so that nobody believes it was heeded."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.core import ParameterSource

from gate.model.problem import Problem, WrongUsage


def refuse(names: Iterable[str], *, beside: str) -> None:
    """Raises WrongUsage for the first of these options that was typed; `beside` says what it has no part in."""
    context = click.get_current_context(silent=True)
    if context is None:
        return
    named = set(names)
    for option in context.command.params:
        if option.name in named and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise WrongUsage(Problem(what=f"{option.opts[0]} has no part in {beside}", file="", fix="leave it out"))
