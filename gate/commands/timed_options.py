"""The options of `gate run --replay`: what is measured, where, which part of it, and where the decision goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gate.commands import unheeded
from gate.commands.amounts import BUDGET_US, WATCHDOG, Amount
from gate.commands.codegen_sides import COMPILED_BASE, HEAD_OPTIONS
from gate.commands.replay_options import simulated
from gate.model.problem import Problem, WrongUsage
from gate.replay.job import MOST_LANES

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
OF_CODE = (*HEAD_OPTIONS, *COMPILED_BASE, "arch", "jobs", "timeout", "installed_torch")
DEFAULTS: dict[str, Any] = {
    "head": None, "control": None, "candidate": None, "providers": (), "stages": (), "limit": None, "shapes_from": (),
    "shard": None, "plan": None, "op_from": None, "gpus": "all", "lanes": 4, "budget_us": 2000.0, "seed": None,
    "watchdog": 1.0, "drift": 0.03, "minutes": None, "simulate": None, "code": True, "publish": False, "repo": None,
    "pr": None, "sha": None,
}  # fmt: skip


def _options() -> list[Callable[..., Any]]:
    default = DEFAULTS
    return [
        click.option("--replay", is_flag=True, help="Measure on this machine's GPUs, confirm suspects, judge times."),
        click.option("--head", metavar="SPEC", help="python=,path=,ld=,flydsl=,env=N:V,commit= of head."),
        click.option("--control", metavar="SPEC", help="The same of the baselines; default base's, else head's."),
        click.option("--candidate", help="The candidate instead of the matrices'; by default of the ops that have it."),
        click.option("--providers", multiple=True, help="Only these baselines (repeat, or join with commas)."),
        click.option("--stages", multiple=True, help="Only shapes of these stages."),
        click.option("--limit", type=click.IntRange(min=1), help="At most this many shapes."),
        click.option("--shapes-from", type=FILE, multiple=True, help="Only the shape ids in this file, one a line."),
        click.option("--shard", metavar="K/N", help="Only shard K of N; 'gate shard merge' puts them together."),
        click.option("--plan", type=FILE, help="The plan of 'gate shard plan'; without it --shard makes the same."),
        click.option("--op-from", metavar="MODULE:ATTR", help="Where the op is defined, if not in this package."),
        click.option("--gpus", default=default["gpus"], show_default=True, help="all, a number, or indices like 0,2."),
        click.option("--lanes", type=click.IntRange(1, MOST_LANES), default=default["lanes"], show_default=True,
                     help="Shapes in work per GPU."),
        click.option("--budget-us", type=BUDGET_US, default=default["budget_us"], show_default=True,
                     help="Device work of one graph."),
        click.option("--seed", type=int, help="Orders the blocks; default drawn and recorded."),
        click.option("--watchdog", type=WATCHDOG, default=default["watchdog"], show_default=True,
                     help="Stretches all time limits."),
        click.option("--drift", type=Amount(0.001), default=default["drift"], show_default=True,
                     help="Stop when a canary moves so far."),
        click.option("--minutes", type=Amount(0, min_open=True), help="Measure so long; --resume goes on."),
        click.option("--simulate", metavar="OPTIONS", callback=simulated, hidden=True, help="Use the simulated GPU."),
        click.option("--code/--no-code", default=True, help="Compile the candidate for gfx950 too, as evidence."),
        click.option("--publish", is_flag=True, help="Post the decision to GitHub when it is made."),
        click.option("--repo", metavar="OWNER/NAME", help="With --publish: the repository."),
        click.option("--pr", type=click.IntRange(min=1), help="With --publish: the pull request."),
        click.option("--sha", help="With --publish: the commit that was judged."),
    ]  # fmt: skip


def timed_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that only a run with --replay takes, and --replay itself."""
    for option in reversed(_options()):
        function = option(function)
    return function


def taken(values: dict[str, Any]) -> dict[str, Any] | None:
    """Takes these options out of `values`; None without --replay, when none of them may be given.

    Raises WrongUsage for one that needs another, or for one of the machine code's with --no-code.
    """
    found = {name: values.pop(name) for name in DEFAULTS}
    if not values.pop("replay"):
        given = [name for name, default in DEFAULTS.items() if found[name] != default]
        if given:
            raise _needs(given[0] if given[0] != "code" else "no-code", "--replay")
        return None
    if not found["code"]:
        unheeded.refuse(OF_CODE, beside="--no-code")
    for name in ("repo", "pr", "sha"):
        if found[name] is not None and not found["publish"]:
            raise _needs(name, "--publish")
    if found["plan"] is not None and found["shard"] is None:
        raise _needs("plan", "--shard K/N")
    return found


def _needs(name: str, what: str) -> WrongUsage:
    return WrongUsage(Problem(what=f"--{name.replace('_', '-')} needs {what}", file=""))
