"""The page of the history: changes, the trend of each op, the noise of all series, in one file that loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gate.model.history import Change, Index, Overview, Points, SeriesTrend
from gate.render import words
from gate.render.html_engine import asset, engine
from gate.render.plot_style import BAD, DOUBT, GOOD, INK, MARKERS, MUTED, SERIES, Plot, canvas, inline, short, style
from gate.render.plots import log_axis

MOST_PLOTS = 24
MOST_LINES = 6
# Beyond so many points a line is drawn without marks, which would hide each other and make the page large.
MOST_MARKERS = 60
MOST_ROWS = 500
DAY_S = 86_400


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows: the store in numbers, every series, the points of those that are drawn, the ops' indices."""

    overview: Overview
    trends: tuple[SeriesTrend, ...]
    points: tuple[Points, ...] = ()
    indices: tuple[Index, ...] = ()
    contracts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def page(view: View) -> str:
    """The page as one HTML document. Equal inputs give equal bytes."""
    changed = [one for one in view.trends if one.changes]
    with style():
        drawn = [*op_plots(view.indices), *series_plots(view)]
    return (
        engine()
        .get_template("history.html.j2")
        .render(
            tiles=_tiles(view),
            state="block"
            if any(one.changes[-1].ratio > 1 and not one.changes[-1].machine for one in changed)
            else "pass",
            title=_title(changed, len(view.trends)),
            problems=view.problems[:100],
            contracts=view.contracts,
            plots=[(plot, Markup(inline(plot))) for plot in drawn],
            changes=[_change(one, change) for one in changed for change in reversed(one.changes)][:MOST_ROWS],
            more_changes=max(0, sum(len(one.changes) for one in changed) - MOST_ROWS),
            noise=[_noise(one) for one in _noisiest(view.trends)[:MOST_ROWS]],
            more_noise=max(0, len(view.trends) - MOST_ROWS),
            ways=sorted(view.overview.by_contract.items()),
            ops=sorted(view.overview.by_op.items()),
            css=Markup(asset("report.css")),
        )
    )


def _title(changed: Sequence[SeriesTrend], of: int) -> str:
    if not changed:
        return f"No lasting change in {words.count(of, 'series', 'series')}"
    slower = sum(one.changes[-1].ratio > 1 for one in changed)
    return f"{slower:,} slower and {len(changed) - slower:,} faster of {words.count(of, 'series', 'series')}"


def _tiles(view: View) -> list[tuple[str, str]]:
    seen = view.overview
    span = "none" if seen.first is None or seen.last is None else f"{seen.first:%Y-%m-%d} to {seen.last:%Y-%m-%d}"
    return [
        ("Runs", f"{seen.runs:,}"),
        ("Rows", f"{seen.rows:,}"),
        ("Series", f"{len(view.trends):,}"),
        ("Span", span),
        ("On disk", f"{seen.bytes / 2**20:,.1f} MiB"),
    ]


def _change(one: SeriesTrend, change: Change) -> dict[str, Any]:
    series = one.series
    return {
        "bad": change.ratio > 1 and not change.machine,
        "ratio": f"{change.ratio:.3f}x",
        "day": f"{change.at:%Y-%m-%d}",
        "commits": f"{change.before[:12] or 'unknown'} → {change.commit[:12] or 'unknown'}",
        "since": change.runs_since,
        "whose": "machine" if change.machine else "kernel" if change.others is not None else "no other to ask",
        "others": "none" if change.others is None else f"{change.others:.3f}x",
        "op": series.op_type or "unknown",
        "shape": f"{series.dtype} {series.args}".strip() or series.shape_id,
        "shape_id": series.shape_id,
        "provider": series.provider,
        "contract": series.contract,
        "p": f"{change.p:.1g}",
    }


def _noisiest(trends: Sequence[SeriesTrend]) -> list[SeriesTrend]:
    return sorted(trends, key=lambda one: (-(one.noise.limit or 0.0), one.series.op_type, one.series.shape_id))


def _noise(one: SeriesTrend) -> dict[str, Any]:
    series, known = one.series, one.noise
    return {
        "op": series.op_type or "unknown",
        "shape": f"{series.dtype} {series.args}".strip() or series.shape_id,
        "provider": series.provider,
        "runs": one.runs,
        "last": f"{one.last_us:.4g}",
        "limit": "too few runs" if known.limit is None else f"{100 * known.limit:.1f}%",
        "detectable": "too few runs" if known.detectable is None else f"{100 * known.detectable:.1f}%",
    }


def op_plots(indices: Sequence[Index]) -> list[Plot]:
    """One picture for each op and contract: its providers, each against its own usual time."""
    groups: dict[tuple[str, str], list[Index]] = {}
    for index in indices:
        groups.setdefault((index.op_type, index.contract), []).append(index)
    return [
        _op_plot(group, number=number, op=op, contract=contract)
        for number, ((op, contract), group) in enumerate(groups.items())
    ]


def _op_plot(group: Sequence[Index], *, number: int, op: str, contract: str) -> Plot:
    figure, (axes,) = canvas(2.6)
    for at, index in enumerate(group[:MOST_LINES]):
        axes.plot(
            _days(index.at),
            index.ratio,
            color=SERIES[at % len(SERIES)],
            marker=MARKERS[at % len(MARKERS)] if len(index.at) <= MOST_MARKERS else "",
            markersize=2.5,
            linewidth=1.1,
            label=f"{short(index.provider, 16)} ({max(index.n):,})",
        )
    axes.axhline(1.0, color=INK, linewidth=1)
    _time_axes(axes, "time over usual time")
    axes.legend(loc="best")
    return Plot(f"op-{number}", f"{op or 'unknown op'}: all its series together", f"Measured on {contract}.", figure)


def _time_axes(axes: Axes, label: str) -> None:
    axes.set_yscale("log")
    log_axis(axes.yaxis)
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda day, _: f"{datetime.fromtimestamp(day * DAY_S, UTC):%Y-%m-%d}"))


def _days(moments: Iterable[datetime]) -> list[float]:
    return [moment.timestamp() / DAY_S for moment in moments]


def series_plots(view: View) -> list[Plot]:
    """The times of each series that was given points, with the places where it changed."""
    told = {one.series: one for one in view.trends}
    return [_series_plot(points, told[points.series], number=number) for number, points in enumerate(view.points)]


def _series_plot(points: Points, told: SeriesTrend, *, number: int) -> Plot:
    figure, (axes,) = canvas(2.2)
    axes.plot(_days(points.at), points.times_us, linestyle="none", marker="o", markersize=2.6, color=SERIES[0])
    for change in told.changes:
        colour = MUTED if change.machine else BAD if change.ratio > 1 else GOOD
        (day,) = _days((change.at,))
        axes.axvline(day, color=colour, linewidth=1.2, linestyle="--" if change.machine else "-")
        where: dict[str, Any] = {
            "xycoords": ("data", "axes fraction"),
            "xytext": (2, -8),
            "textcoords": "offset points",
        }
        axes.annotate(f"{change.ratio:.3f}x", (day, 1.0), color=colour, fontsize=7.5, **where)
    if told.noise.limit is not None:
        middle = told.last_us
        axes.axhspan(
            middle / (1 + told.noise.limit), middle * (1 + told.noise.limit), color=DOUBT, alpha=0.12, linewidth=0
        )
    _time_axes(axes, "time, µs")
    series = points.series
    name = short(f"{series.op_type} {series.dtype} {series.args} {series.provider}".strip(), 80)
    runs = words.count(len(points.times_us), "run")
    caption = f"{series.shape_id}, {series.contract}; {runs}. Band: noise about the last time."
    return Plot(f"series-{number}", name, caption, figure)
