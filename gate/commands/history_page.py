"""`gate history page`: the history as one HTML file that loads nothing."""

from __future__ import annotations

from pathlib import Path

import click

from gate import store as data_store
from gate.commands.amounts import Amount
from gate.commands.history_options import broken, listing, store_option, wanted_options
from gate.commands.history_trend import LEAST_PERCENT
from gate.commands.telling import say
from gate.model.history import Overview, Wanted
from gate.model.problem import Problem, UnusableInput


@click.command()
@store_option
@wanted_options
@click.option("--last", type=click.IntRange(min=10), default=400, show_default=True, help="Runs of a series looked at.")
@click.option("--least", type=Amount(0.0), default=LEAST_PERCENT, show_default=True, help="In percent.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File to write.")
def page(store: Path, wanted: Wanted, last: int, least: float, out: Path) -> int:
    """Write the changes, the trend of each op and the noise of all series as one page.

    Exit codes: 0 written, 2 if files of the store could not be read; the page then says so.
    """
    from gate.commands.history_table import contract_changes
    from gate.history import query
    from gate.history.files import Listing
    from gate.history.index import indices
    from gate.history.series import Timeline, timeline
    from gate.history.trend import trends

    try:
        from gate.render import history as render
    except ImportError as error:
        fix = "pip install 'flydsl-gate[history,report]'"
        raise UnusableInput(Problem(what=f"the page needs {error.name}", file="", fix=fix)) from None

    def ask(reader: query.Reader, files: Listing) -> tuple[Overview, Timeline]:
        return query.overview(reader, files), timeline(reader, wanted, runs=tuple(files.runs.values()))

    (seen, lines), found = query.asked(listing(store), ask)
    told = trends(lines, last=last, least_effect=least / 100)
    chosen = [one.series for one in told if one.changes][: render.MOST_PLOTS]
    view = render.View(
        overview=seen,
        trends=tuple(told),
        points=tuple(lines.points_of(chosen, last=last)),
        indices=tuple(indices(lines, last=last)),
        contracts=tuple(contract_changes(told)),
        problems=tuple(map(str, found.problems)),
    )
    data_store.write_text(out, render.page(view))
    say(f"{out}: {len(told)} series, {sum(bool(one.changes) for one in told)} with a lasting change")
    return broken(found)
