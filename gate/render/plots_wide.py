"""The plots over a whole run or several: coverage, noise and untouched baselines, the trend over commits."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from gate.model.decision import Decision
from gate.model.report import OpCover, Rollup, Trend
from gate.render import words
from gate.render.plot_style import BAD, DOUBT, GRID, INK, MARKERS, MUTED, PAPER, SERIES, Plot, canvas, short
from gate.render.plots import MOST_POINTS, box_plot, density, log_axis

MOST_LINES = 30
MOST_SERIES = 6
UNSTABLE = 1.2  # The results contract calls a row stable up to this p90/p10.
Cell = tuple[int, int]  # ok rows, all rows


def coverage(decision: Decision, rollup: Rollup) -> Plot:
    """The share of shapes that each provider has a usable row for, by op and stage."""
    name, title = "coverage", "Coverage by op, stage and provider"
    if not rollup.covers:
        return Plot(name, title, "No results were given.")
    stages = {row.shape_id: row.stage for row in decision.rows}
    lines = {key: cells for cover in rollup.covers for key, cells in _by_stage(cover, stages).items()}
    if len(lines) > MOST_LINES:
        lines = {cover.op_type: _whole(cover) for cover in rollup.covers[:MOST_LINES]}
    providers = list(dict.fromkeys(name for cells in lines.values() for name in cells))
    figure, (axes,) = canvas(1.0 + 0.34 * len(lines))
    for at, cells in enumerate(lines.values()):
        for column, provider in enumerate(providers):
            _square(axes, column, at, cells.get(provider))
    axes.set(xlim=(0, len(providers)), ylim=(len(lines), 0))
    axes.set_xticks(
        [index + 0.5 for index in range(len(providers))], [short(p, 14) for p in providers], rotation=30, ha="left"
    )
    axes.set_yticks([index + 0.5 for index in range(len(lines))], [short(line, 26) for line in lines])
    axes.xaxis.tick_top()
    axes.grid(False)
    axes.tick_params(length=0)
    left = len(rollup.covers) - len(lines)
    more = f" {words.count(left, 'more op is', 'more ops are')} in coverage_matrix.md." if left > 0 else ""
    caption = f"Usable rows of all shapes; darker is more, a red frame is a gap of the candidate.{more}"
    return Plot(name, title, caption, figure)


def _by_stage(cover: OpCover, stages: dict[str, str]) -> dict[str, dict[str, Cell]]:
    lines: dict[str, dict[str, Cell]] = {}
    for shape in cover.shapes:
        cells = lines.setdefault(f"{cover.op_type} · {stages.get(shape.shape_id, '')}".replace("_", " "), {})
        for provider, state in zip(cover.providers, shape.states, strict=True):
            good, total = cells.get(provider, (0, 0))
            cells[provider] = (good + (state == "ok"), total + 1)
    return dict(sorted(lines.items()))


def _whole(cover: OpCover) -> dict[str, Cell]:
    return {name: (cover.counts[name].get("ok", 0), len(cover.shapes)) for name in cover.providers}


def _square(axes: Axes, column: int, at: int, cell: Cell | None) -> None:
    good, total = cell or (0, 0)
    share = good / total if total else 0.0
    gap = column == 0 and total and good < total
    axes.add_patch(Rectangle((column, at), 1, 1, facecolor=SERIES[0], alpha=0.05 + 0.45 * share, linewidth=0))
    edge, width, above = (BAD, 1.4, 3) if gap else (PAPER, 1.0, 2)
    inner = (column + 0.02, at + 0.04)
    axes.add_patch(Rectangle(inner, 0.96, 0.92, facecolor="none", edgecolor=edge, linewidth=width, zorder=above))
    axes.text(column + 0.5, at + 0.5, f"{good:,}/{total:,}" if total else "–", ha="center", va="center", fontsize=7)


def trend(history: Sequence[Trend]) -> Plot:
    """The speedup of each series over the commits of the history, oldest first."""
    name, title = "trend", "Trend over commits"
    if not history:
        return Plot(name, title, "No history was given.")
    commits = list(dict.fromkeys(point.commit for point in history))
    place = {commit: index for index, commit in enumerate(commits)}
    series: dict[str, list[tuple[int, float]]] = {}
    for point in history:
        series.setdefault(point.series, []).append((place[point.commit], point.speedup))
    figure, (axes,) = canvas(3.0)
    for index, (key, pairs) in enumerate(sorted(series.items())[:MOST_SERIES]):
        xs, ys = zip(*pairs, strict=True)
        colour, marker = SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
        axes.plot(xs, ys, color=colour, marker=marker, markersize=3.5, linewidth=1.2, label=short(key, 24))
    axes.axhline(1.0, color=INK, linewidth=1)
    axes.set_yscale("log")
    log_axis(axes.yaxis, unit="x")
    step = max(1, len(commits) // 6)
    axes.set_xticks(
        range(0, len(commits), step), [short(commit, 9) for commit in commits[::step]], rotation=30, ha="right"
    )
    axes.set_ylabel("speedup")
    axes.legend(loc="best")
    left = f"; the first {MOST_SERIES} of {len(series)} series" if len(series) > MOST_SERIES else ""
    return Plot(name, title, f"{words.count(len(commits), 'commit')}{left}.", figure)


def noise(rollup: Rollup) -> Plot:
    """How far single rows spread, and how far baselines moved that no commit here touched."""
    name, title = "noise", "Noise, and the untouched baselines (A/A)"
    if not rollup.noise and not rollup.controls:
        return Plot(name, title, "The results say no percentiles, and no baseline ran on both sides.")
    figure, (upper, lower) = canvas(4.8, panels=2)
    if rollup.noise:
        _spreads(upper, rollup)
    else:
        _empty(upper, "no percentiles in the results")
    if rollup.controls:
        _moves(lower, rollup)
    else:
        _empty(lower, "no baseline ran on both sides")
    moves = sum(map(len, rollup.controls.values()))
    above, below = words.count(len(rollup.noise), "row"), words.count(moves, "paired row")
    caption = (
        f"Above: {above} of the candidate; dashed: {UNSTABLE:g}, where a row counts as unstable. "
        f"Below: {below} of the baselines, head against base."
    )
    return Plot(name, title, caption, figure)


def _spreads(axes: Axes, rollup: Rollup) -> None:
    xs, ys = [point.time_us for point in rollup.noise], [point.spread for point in rollup.noise]
    if len(xs) > MOST_POINTS:
        density(axes, xs, ys)
    else:
        axes.plot(xs, ys, linestyle="none", marker="o", markersize=2.8, color=SERIES[0], alpha=0.6)
        axes.set(xscale="log", yscale="log")
    axes.axhline(UNSTABLE, color=DOUBT, linestyle="--", linewidth=1)
    axes.set(xlabel="time, µs", ylabel="p90 / p10")
    log_axis(axes.xaxis)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}" if value < 3 else ""))


def _moves(axes: Axes, rollup: Rollup) -> None:
    names = sorted(rollup.controls)[::-1]
    values = [[(ratio - 1) * 100 for ratio in rollup.controls[name]] for name in names]
    box_plot(axes, values, colour=SERIES[1])
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks(range(len(names)), [short(name, 18) for name in names])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+,.4g}%" if value else "0"))
    axes.set_xlabel("head against base, right is slower")


def _empty(axes: Axes, why: str) -> None:
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=MUTED)
    for spine in axes.spines.values():
        spine.set_color(GRID)
