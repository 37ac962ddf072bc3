"""What people read of the history in a terminal."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gate.model.history import Change, Overview, SeriesTrend
from gate.model.text import cell, counted

WIDTH = 220
TITLES = ("op", "shape_id", "provider", "runs", "last us", "limit", "detectable", "change", "since", "runs", "whose")


def overview(seen: Overview) -> Iterator[str]:
    """The lines of `gate history show`."""
    span = "" if seen.first is None or seen.last is None else f", {seen.first:%Y-%m-%d} to {seen.last:%Y-%m-%d}"
    usable = f"{seen.usable:,} with a time of a checked output"
    yield f"{counted(seen.runs, 'run')}, {counted(seen.rows, 'row')} ({usable}){span}"
    yield f"{seen.series:,} series in {counted(seen.files, 'file')}, {seen.bytes / 2**20:,.1f} MiB"
    for op, rows in seen.by_op.items():
        yield f"  op {op}: {counted(rows, 'row')}"
    for way, rows in seen.by_contract.items():
        yield f"  measured on {way}: {counted(rows, 'row')}"


def trends(seen: Sequence[SeriesTrend], *, left: int) -> Iterator[str]:
    """One line for each change of a series, or for the series where it has none."""
    if not seen:
        return
    table = Table(box=None, pad_edge=False)
    for number, title in enumerate(TITLES):
        table.add_column(title, no_wrap=True, justify="right" if number in (3, 4, 5, 6, 7, 9) else "left")
    for one in seen:
        for change in reversed(one.changes) if one.changes else (None,):
            table.add_row(*(escape(cell(text)) for text in _cells(one, change)))
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None).print(table)
    yield from (line.rstrip() for line in out.getvalue().rstrip().splitlines())
    if left:
        yield f"{left} more series; --limit shows more of them"


def _cells(one: SeriesTrend, change: Change | None) -> tuple[str, ...]:
    series, noise = one.series, one.noise
    names = (series.op_type, series.shape_id, series.provider, f"{one.runs}", f"{one.last_us:.4g}")
    limits = (_percent(noise.limit), _percent(noise.detectable))
    if change is None:
        return (*names, *limits, "none", "", "", "")
    whose = "machine" if change.machine else "kernel" if change.others is not None else "kernel, no other to ask"
    since = f"{change.at:%Y-%m-%d} {change.commit[:12]}"
    return (*names, *limits, f"{change.ratio:.3f}x", since, f"{change.runs_since}", whose)


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f}%"


def summary(seen: Sequence[SeriesTrend], *, runs: int) -> Iterator[str]:
    """The counts over all series, and where contracts changed."""
    changed = [one for one in seen if one.changes]
    slower = sum(one.changes[-1].ratio > 1 for one in changed)
    machine = sum(one.changes[-1].machine for one in changed)
    short = sum(one.noise.limit is None or one.runs < 10 for one in seen)
    yield (
        f"{len(seen):,} series of {counted(runs, 'run')}: {len(changed):,} with a lasting change "
        f"({slower:,} slower, {len(changed) - slower:,} faster, {machine:,} of them with the machine), "
        f"{short:,} too short to tell"
    )
    doubled = sum(one.left_out for one in seen)
    if doubled:
        yield f"{counted(doubled, 'time')} a run measured a series twice, and both times were left out"
    yield from contract_changes(seen)


def contract_changes(seen: Iterable[SeriesTrend]) -> Iterator[str]:
    """One line for each way in which series took the place of others."""
    found = Counter((b.fields, b.before, b.after, f"{b.at:%Y-%m-%d}") for one in seen for b in one.breaks)
    for (fields, before, after, day), count in sorted(found.items()):
        names = ", ".join(fields).replace("_", " ")
        yield f"new series from {day}: {names} changed from {before} to {after} ({count:,} series); not compared across"
