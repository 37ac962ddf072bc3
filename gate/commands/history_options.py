"""The options that the verbs of the history share, and how they tell of files that could not be read."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from gate.commands.telling import tell
from gate.history import files
from gate.history.files import Listing
from gate.model.history import Wanted
from gate.model.problem import Exit

STORE = click.Path(path_type=Path, file_okay=False)

store_option = click.option("--store", type=STORE, required=True, help="Folder of the history.")


def wanted_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--op, --shape, --provider, --gpu and --arch, handed on as one `wanted`."""

    @wraps(function)
    def with_wanted(*, ops: Any, shapes: Any, providers: Any, gpus: Any, archs: Any, **rest: Any) -> Any:
        wanted = Wanted(ops=ops, shapes=shapes, providers=providers, gpus=gpus, archs=archs)
        return function(wanted=wanted, **rest)

    options = [
        click.option("--op", "ops", multiple=True, help="Only this op; may be repeated, as those below."),
        click.option("--shape", "shapes", multiple=True, help="Only this shape_id."),
        click.option("--provider", "providers", multiple=True, help="Only this provider."),
        click.option("--gpu", "gpus", multiple=True, help="Only this GPU, by its full name."),
        click.option("--arch", "archs", multiple=True, help="Only this architecture."),
    ]
    wrapped: Callable[..., Any] = with_wanted
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def listing(store: Path) -> Listing:
    """The files of the store. Raises UnusableInput where there is none, or the packages are not installed."""
    files.need()
    return files.listing(store)


def broken(found: Listing) -> int:
    """Names every file that was left out; the exit code is 2 if there is one, as what was shown is not all."""
    for problem in found.problems:
        tell(problem)
    return Exit.NO_VERDICT if found.problems else Exit.PASS
