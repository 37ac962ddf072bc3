"""How plots look: colours that the page can swap for the dark theme, fonts, and a figure as SVG or PNG."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gate.render.escape import visible

WIDTH = 4.5  # Inches: narrow, so that the text stays readable where a phone shrinks the picture.
INK, MUTED, GRID, PAPER = "#1f2328", "#59636e", "#d1d9e0", "#fefefe"
BAD, GOOD, DOUBT = "#c93c37", "#1a7f5a", "#9a6700"
SERIES = ("#0b6bcb", "#b35900", "#6e40c9", "#0f766e", "#bf3989", "#57606b")
MARKERS = ("o", "s", "^", "D", "v", "P")
# The light colour of a plot and the page's variable that takes its place in an inlined picture.
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    BAD: "var(--bad)",
    GOOD: "var(--good)",
    DOUBT: "var(--doubt)",
    **{colour: f"var(--c{index})" for index, colour in enumerate(SERIES)},
}
_RC: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gate",  # Equal plots get equal ids, so equal runs equal bytes.
    "text.parse_math": False,  # A dollar sign in a name is no formula.
    "font.size": 8.5,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 9,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.facecolor": PAPER,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.min_exponent": 5,
    "figure.facecolor": PAPER,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


@dataclass(frozen=True)
class Plot:
    """One picture: a plain name for files and ids, its heading, what it shows in a sentence, and the figure.

    Without a figure `caption` says why there is none.
    """

    name: str
    title: str
    caption: str
    figure: Figure | None = None


@contextmanager
def style() -> Iterator[None]:
    """The look of all plots, for the time of drawing and of writing them."""
    with mpl.rc_context(_RC):
        yield


def canvas(height: float, *, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure of the page's width, `height` inches tall, with panels one below the other."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = [figure.add_subplot(panels, 1, index + 1) for index in range(panels)]
    return figure, axes


def short(text: str, limit: int = 46) -> str:
    """A name from outside as one harmless line that fits a plot."""
    text = visible(text, limit=400)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def svg(plot: Plot) -> str:
    """The figure as an SVG element with the light theme's colours; its ids start with the plot's name."""
    assert plot.figure is not None
    buffer = io.StringIO()
    with style():
        plot.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{plot.name}-", text).strip()


def inline(plot: Plot) -> str:
    """As `svg`, in the page's colours, sized by the page, and named for a screen reader by its caption."""
    text = svg(plot)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", f'<svg role="img" aria-labelledby="{plot.name}-caption"', 1)


def png(plot: Plot) -> bytes:
    """The figure as a PNG of 160 dots an inch."""
    assert plot.figure is not None
    buffer = io.BytesIO()
    with style():
        plot.figure.savefig(buffer, format="png", dpi=160, metadata={"Software": None})
    return buffer.getvalue()
