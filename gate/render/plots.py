"""The plots of a timing run: speedups by op, base against head, intervals, roofline, noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from gate.model.decision import Decision, RowFinding
from gate.model.report import Rollup
from gate.render import rows, words
from gate.render.plot_style import (
    BAD,
    DOUBT,
    GOOD,
    INK,
    MARKERS,
    MUTED,
    SERIES,
    Plot,
    canvas,
    short,
)

# Above this many points single ones hide each other, and their number is shown instead.
MOST_POINTS = 3_000
MOST_OPS = 24
MOST_INTERVALS = 24
_NARROW, _FLAT = 6.0, 1.6  # Largest over smallest value.
_FINE = (1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
_STYLE_OF = {"regressed": (BAD, "X", "slower"), "waived": (DOUBT, "D", "waived"), "improved": (GOOD, "^", "faster")}
_STYLE_OF |= {"inconclusive": (DOUBT, "s", "too noisy to tell"), "not_comparable": (DOUBT, "v", "not comparable")}
_CODE_STYLE_OF = {"fail": (BAD, "X", "worse"), "warn": (DOUBT, "D", "worth a look")}
_PLAIN = (SERIES[0], "o", "no change to act on")


def log_axis(axis: Any, *, unit: str = "") -> None:
    """Plain numbers on a logarithmic axis: 0.5, 1, 2, not powers of ten, and finer ones where it spans little."""
    low, high = axis.get_data_interval()
    span = high / low if low > 0 else math.inf
    steps = _FINE if span < _NARROW else (1.0, 2.0, 5.0)
    axis.set_major_locator(MaxNLocator(6) if span < _FLAT else LogLocator(base=10, subs=steps, numticks=50))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}{unit}"))
    axis.set_minor_formatter(NullFormatter())


def by_op(decision: Decision) -> Plot:
    """How the speedups of each op spread against the best baseline."""
    name, title = "speedup", "Speedup against the best baseline, by op"
    groups: dict[str, list[float]] = {}
    for row in decision.rows:
        if row.speedup_vs_best is not None and words.finite(row.speedup_vs_best) and row.speedup_vs_best > 0:
            groups.setdefault(row.op_type, []).append(row.speedup_vs_best)
    if not groups:
        return Plot(name, title, "No row has a standing against a best baseline.")
    ops = sorted(groups, key=lambda op: (-len(groups[op]), op))[:MOST_OPS][::-1]
    figure, (axes,) = canvas(1.1 + 0.5 * len(ops))
    _boxes(axes, [groups[op] for op in ops])
    axes.set_yticks(range(len(ops)), [f"{short(op, 24)}\n{words.count(len(groups[op]), 'row')}" for op in ops])
    axes.axvline(1.0, color=INK, linewidth=1)
    axes.set_xlabel("speedup, right of 1x the candidate is faster")
    total = sum(map(len, groups.values()))
    others = len(groups) - len(ops)
    left = f" Left out: the {words.count(others, 'op')} with the fewest rows." if others else ""
    of = words.count(len(groups), "op")
    caption = f"{words.count(total, 'row')} of {of}. Box: the middle half; whiskers: 5% to 95%; line: median.{left}"
    return Plot(name, title, caption, figure)


def box_plot(axes: Axes, groups: Sequence[Sequence[float]], *, colour: str) -> None:
    """One lying box per group, at heights 0, 1, 2 ...; whiskers at the 5th and 95th percentile."""
    drawn = axes.boxplot(
        list(groups),
        positions=range(len(groups)),
        orientation="horizontal",
        widths=0.5,
        whis=(5, 95),
        showfliers=False,
        patch_artist=True,
        medianprops={"color": INK, "linewidth": 1.6},
        whiskerprops={"color": MUTED},
        capprops={"color": MUTED},
    )
    for box in drawn["boxes"]:
        box.set(facecolor=colour, alpha=0.25, edgecolor=MUTED)


def _boxes(axes: Axes, groups: Sequence[Sequence[float]]) -> None:
    axes.set_xscale("log")
    box_plot(axes, groups, colour=SERIES[0])
    if sum(map(len, groups)) <= MOST_POINTS:
        for index, values in enumerate(groups):
            offsets = [index + 0.3 * math.sin(9.7 * at) for at in range(len(values))]  # Spread, the same each time.
            axes.plot(values, offsets, linestyle="none", marker="o", markersize=2.2, color=SERIES[0], alpha=0.6)
    axes.set_ylim(-0.6, len(groups) - 0.4)
    log_axis(axes.xaxis, unit="x")


def base_head(decision: Decision) -> Plot:
    """Base against head: times, or instructions where only machine code was compared."""
    name = "base-head"
    if decision.kind == "codegen":
        title, unit = "Instructions, base against head", "instructions"
        found = [(float(b), float(h), row) for row in decision.rows for b, h in _instructions(row)]
    else:
        title, unit = "Kernel time, base against head", "µs"
        found = [(row.base_us, row.head_us, row) for row in decision.rows if row.ratio and row.base_us and row.head_us]
    if not found:
        return Plot(name, title, "No row was measured on both sides.")
    figure, (axes,) = canvas(3.8)
    low, high = min(min(b, h) for b, h, _ in found) / 1.2, max(max(b, h) for b, h, _ in found) * 1.2
    axes.plot([low, high], [low, high], color=MUTED, linewidth=1)
    _pairs(axes, found)
    axes.set(
        xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), xlabel=f"base, {unit}", ylabel=f"head, {unit}"
    )
    axes.set_aspect("equal")
    log_axis(axes.xaxis)
    log_axis(axes.yaxis)
    return Plot(name, title, f"{words.count(len(found), 'row')}; above the line the head takes more.", figure)


def _instructions(row: RowFinding) -> list[tuple[int, int]]:
    code = row.code
    return (
        []
        if code is None or code.base is None or code.head is None
        else [(code.base.instructions, code.head.instructions)]
    )


def _pairs(axes: Axes, found: Sequence[tuple[float, float, RowFinding]]) -> None:
    groups: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for base, head, row in found:
        groups.setdefault(_look(row), []).append((base, head))
    if len(found) > MOST_POINTS:
        density(axes, [pair[0] for pair in found], [pair[1] for pair in found])
        return
    for (colour, marker, label), pairs in sorted(groups.items(), key=lambda item: -len(item[1])):
        xs, ys = zip(*pairs, strict=True)
        told = f"{label} ({len(pairs):,})"
        axes.plot(xs, ys, linestyle="none", marker=marker, markersize=4, color=colour, alpha=0.75, label=told)
    axes.legend(loc="lower right")


def _look(row: RowFinding) -> tuple[str, str, str]:
    """Colour, marker and words of a row: the marker tells it too, for who cannot tell the colours."""
    if row.code is not None:
        return _CODE_STYLE_OF.get(row.code.verdict, _PLAIN)
    return _STYLE_OF.get(row.verdict, _PLAIN)


def density(axes: Axes, xs: Sequence[float], ys: Sequence[float]) -> None:
    """So many points that their number per cell is drawn, from light to dark."""
    colours = colormaps["viridis_r"].resampled(12)
    cells = axes.hexbin(
        xs, ys, gridsize=45, xscale="log", yscale="log", mincnt=1, norm=LogNorm(), cmap=colours, linewidths=0.1
    )
    assert isinstance(axes.figure, Figure)
    bar = axes.figure.colorbar(cells, ax=axes, label="rows in a cell", location="top", shrink=0.6, aspect=30)
    assert bar.solids is not None
    bar.solids.set_rasterized(False)  # A picture inside the picture would need leave to load.
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    bar.ax.xaxis.set_minor_formatter(NullFormatter())


def intervals(decision: Decision) -> Plot:
    """The worst rows with their confidence intervals."""
    name, title = "intervals", "Change of time with its interval, worst rows first"
    found = [row for row in rows.ordered(decision.rows) if row.ci is not None and words.finite(row.ratio)]
    if not found:
        return Plot(name, title, "No row has an interval: nothing was compared by its times.")
    chosen = sorted(found, key=lambda row: (row.verdict not in rows.WORSE, -(row.ratio or 0.0)))[:MOST_INTERVALS]
    figure, (axes,) = canvas(0.9 + 0.34 * len(chosen))
    for index, row in enumerate(reversed(chosen)):
        _interval(axes, index, row)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks([])
    axes.set_ylim(-0.6, len(chosen) - 0.2)
    if max(row.ci[1] for row in chosen if row.ci) > 4:
        axes.set_xscale("symlog", linthresh=10)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+,.6g}%" if value else "0"))
    axes.set_xlabel("head against base, right is slower")
    caption = f"The {len(chosen)} worst of {words.count(len(found), 'row')} with an interval."
    return Plot(name, title, caption, figure)


def _interval(axes: Axes, at: int, row: RowFinding) -> None:
    colour, marker, _ = _look(row)
    assert row.ci is not None and row.ratio is not None
    low, high, middle = ((value - 1) * 100 for value in (*row.ci, row.ratio))
    axes.plot([low, high], [at, at], color=colour, linewidth=1.6, solid_capstyle="butt")
    axes.plot([middle], [at], marker=marker, markersize=4.5, color=colour)
    place = axes.get_yaxis_transform()
    axes.text(
        0.01, at + 0.2, short(f"{words.label_text(row)} · {row.model}", 62), transform=place, fontsize=7, va="bottom"
    )


def roofline(rollup: Rollup) -> Plot:
    """Achieved operations against operations per byte, under the GPU's roofs."""
    name, title = "roofline", "Roofline"
    if not rollup.roofline:
        return Plot(name, title, "No row of the results says both its bytes and its operations.")
    figure, (axes,) = canvas(3.4)
    groups: dict[str, list[tuple[float, float]]] = {}
    for point in rollup.roofline:
        groups.setdefault(point.op_type, []).append((point.flop_per_byte, point.tflops))
    every = [pair for pairs in groups.values() for pair in pairs]
    axes.set(xscale="log", yscale="log")
    if len(every) > MOST_POINTS:
        density(axes, [x for x, _ in every], [y for _, y in every])
    else:
        _ops(axes, groups)
    roof = rollup.roof
    if roof is not None:
        _roofs(axes, every, tb_per_s=roof.tb_per_s, tflops=roof.tflops_16)
    axes.set(xlabel="operations per byte", ylabel="achieved, 1e12 operations/s")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=7))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())
    said = (
        f"Lines: {roof.tb_per_s:g} TB/s and {roof.tflops_16:,.0f} TFLOP/s (dense, 16 bit) of {short(roof.gpu)}."
        if roof
        else ""
    )
    return Plot(name, title, f"{words.count(len(every), 'row')} of the candidate. {said}".strip(), figure)


def _ops(axes: Axes, groups: dict[str, list[tuple[float, float]]]) -> None:
    for index, (op, pairs) in enumerate(sorted(groups.items())):
        xs, ys = zip(*pairs, strict=True)
        colour, marker = SERIES[index % len(SERIES)], MARKERS[index % len(MARKERS)]
        axes.plot(xs, ys, linestyle="none", marker=marker, markersize=3.5, color=colour, alpha=0.7, label=short(op, 24))
    if len(groups) <= 12:
        axes.legend(loc="lower right")


def _roofs(axes: Axes, every: Sequence[tuple[float, float]], *, tb_per_s: float, tflops: float) -> None:
    left, right = min(x for x, _ in every) / 2, max(max(x for x, _ in every) * 2, 2 * tflops / tb_per_s)
    knee = tflops / tb_per_s
    axes.plot([left, knee, right], [left * tb_per_s, tflops, tflops], color=INK, linewidth=1.2)
