"""`gate baseline show` and `diff`: the stored baselines with their age, and how the times of two of them differ."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from gate import store
from gate.commands import baseline_files, baseline_table
from gate.commands.baseline_release import DAY, FOLDER, INPUT
from gate.commands.run import default_ledgers
from gate.ledgers.ratios import ratios
from gate.model.problem import Problem, WrongUsage


@click.command()
@click.option("--ledgers", type=FOLDER, help="Frozen ledgers. Default: ./frozen_ledgers or ours.")
@click.option("--op", "ops", multiple=True, help="An op; may be repeated. Default: all.")
@click.option("--today", type=DAY, help="The day that ages are counted to. Default: today, UTC.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list on standard output.")
def show(ledgers: Path | None, ops: tuple[str, ...], today: datetime | None, as_json: bool) -> None:
    """Print every stored baseline: op, GPU, method, cache state, age, commit, rows."""
    known = baseline_files.read_ops(ledgers or default_ledgers())
    if unknown := sorted(set(ops) - known.keys()):
        what = f"no op {', '.join(unknown)}; the ops are {', '.join(sorted(known))}"
        raise WrongUsage(Problem(what=what, file=""))
    moving = [entry for op in ops or sorted(known) for entry in baseline_files.places(known[op].folder)]
    found = [one for each in moving for one in (each, *baseline_files.releases(each))]
    day = (today or datetime.now(UTC)).date()
    entries = [entry for each in found for entry in baseline_table.entries(each, today=day)]
    click.echo(store.encode(entries) if as_json else baseline_table.overview(entries))


@click.command()
@click.argument("first", type=INPUT)
@click.argument("second", type=INPUT)
@click.option("--provider", "providers", multiple=True, help="Only this provider; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list on standard output.")
def diff(first: Path, second: Path, providers: tuple[str, ...], as_json: bool) -> None:
    """Print how each time of SECOND relates to that of FIRST, what cannot be compared first, then worst first.

    Both are folders of a baseline (or of its history), result files, or folders of ledgers. It judges nothing:
    the exit code is 0 once the table is printed.
    """
    before, after = (baseline_files.read_results(path).outcomes for path in (first, second))
    found = [one for one in ratios(before, after) if not providers or one.provider in providers]
    click.echo(store.encode(found) if as_json else baseline_table.comparison(found))
