"""The options that `gate replay` and `gate correctness` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gate.commands.amounts import WATCHDOG, Amount
from gate.replay import sim_options
from gate.replay.job import MOST_LANES

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def simulated(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The options of a simulated GPU as they are, which the workers read again. Raises click.BadParameter."""
    try:
        sim_options.parse(value or "")
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    return value


def input_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is measured, shared by replay and correctness."""
    options = [
        click.option("--op", required=True, help="An op, or all."),
        click.option("--ledgers", type=FOLDER, help="Folder of <op>/shape_ledger.jsonl; default the packaged."),
        click.option("--ledger", type=FILE, help="One ledger, with --matrix."),
        click.option("--matrix", type=FILE, help="One baseline matrix, with --ledger."),
        click.option("--op-from", metavar="MODULE:ATTR", help="Where the op is defined, if not in this package."),
        click.option("--out", type=FOLDER, required=True, help="Where the results go."),
        click.option("--head", metavar="SPEC", help="python=,path=,ld=,flydsl=,env=N:V,commit= of head."),
        click.option("--base", metavar="SPEC", help="The same of base; without it only head is measured."),
        click.option("--control", metavar="SPEC", help="The same of the baselines; default base's, else head's."),
        click.option("--candidate", help="The candidate instead of the matrix's."),
        click.option("--entrypoint", multiple=True, metavar="NAME=KERNEL", help="Provider NAME is pkg.mod:{op} here."),
        click.option("--providers", multiple=True, help="Only these baselines (repeat, or join with commas)."),
        click.option("--stages", multiple=True, help="Only shapes of these stages."),
        click.option("--shape", "shapes", multiple=True, help="Only these shape ids."),
        click.option("--shapes-from", type=FILE, multiple=True, help="Only the shape ids in this file, one a line."),
        click.option("--limit", type=click.IntRange(min=1), help="At most this many shapes."),
        click.option("--seed", type=int, help="Orders the blocks; default drawn and recorded."),
        click.option("--resume", is_flag=True, help="Go on with the interrupted run in --out."),
        click.option("--gpus", default="all", show_default=True, help="all, a number, or indices such as 0,2."),
        click.option("--lanes", type=click.IntRange(1, MOST_LANES), default=4, show_default=True,
                     help="Shapes in work per GPU."),
        click.option("--watchdog", type=WATCHDOG, default=1.0, show_default=True, help="Stretches all time limits."),
        click.option("--drift", type=Amount(0.001), default=0.03, show_default=True,
                     help="Stop when a canary moves so far."),
        click.option("--simulate", metavar="OPTIONS", callback=simulated, hidden=True, help="Use the simulated GPU."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function
