"""`gate history trend`: the noise of each series and its lasting changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gate.commands.amounts import Amount
from gate.commands.history_options import broken, listing, store_option, wanted_options
from gate.commands.telling import say, say_json
from gate.model.history import SeriesTrend, Wanted
from gate.model.problem import Exit

if TYPE_CHECKING:
    from gate.history.files import Listing
    from gate.history.series import Timeline

LEAST_PERCENT = 1.0


def read(store: Path, wanted: Wanted) -> tuple[Timeline, Listing]:
    """The series of the store that are wanted, and the files they came from. Raises UnusableInput."""
    from gate.history import query
    from gate.history.series import timeline

    return query.asked(listing(store), lambda reader, files: timeline(reader, wanted, runs=tuple(files.runs.values())))


@click.command()
@store_option
@wanted_options
@click.option("--last", type=click.IntRange(min=10), default=400, show_default=True, help="Runs of a series looked at.")
@click.option("--least", type=Amount(0.0), default=LEAST_PERCENT, show_default=True, help="In percent.")
@click.option("--recent", type=click.IntRange(min=1), help="Exit with 1 if a series got slower within so many runs.")
@click.option("--all", "everything", is_flag=True, help="Print series without a change too.")
@click.option("--limit", type=click.IntRange(min=1), default=40, show_default=True, help="Lines to print.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list on standard output, of every series.")
def trend(
    store: Path,
    wanted: Wanted,
    last: int,
    least: float,
    recent: int | None,
    everything: bool,
    limit: int,
    as_json: bool,
) -> int:
    """Print the lasting changes of each series, worst first, and what its noise lets one see.

    \b
    limit       Q3 + 3 IQR of the changes from run to run: a larger step is no noise
    detectable  the slowdown that one new run shows beyond that limit nine times in ten
    change      time after over time before; it lasted at least 5 runs, p < 0.001 over the series

    A change is the machine's where the other providers moved with it. Exit codes: 0; 1 with --recent, if a series got
    slower and the machine did not; 2 if files of the store could not be read.
    """
    from gate.commands import history_table
    from gate.history.trend import trends

    timeline, found = read(store, wanted)
    seen = trends(timeline, last=last, least_effect=least / 100)
    if as_json:
        say_json(seen)
    else:
        shown = seen if everything or wanted.shapes else [one for one in seen if one.changes]
        for line in history_table.trends(shown[:limit], left=len(shown[limit:])):
            say(line)
        for line in history_table.summary(seen, runs=len(timeline.runs)):
            say(line)
    code = broken(found)
    return code or (Exit.BLOCK if recent is not None and any(slower_lately(one, recent) for one in seen) else code)


def slower_lately(one: SeriesTrend, recent: int) -> bool:
    """Whether the series got slower within its last `recent` runs, and not because of the machine."""
    return any(change.ratio > 1 and not change.machine and change.runs_since <= recent for change in one.changes)
