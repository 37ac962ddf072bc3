"""The files of `gate report` in a run's folder: what writes them and what removes them share this one list."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gate import store

SUMMARY_FILE, COVERAGE_FILE, WEIGHTED_FILE = "benchmark_summary.md", "coverage_matrix.md", "weighted_summary.md"
HTML_FILE, PLOTS_FOLDER = "report.html", "plots"
PLOTS = ("speedup", "base-head", "roofline", "noise", "coverage", "intervals", "trend")
PLOT_ENDINGS = (".svg", ".png")


def clear(out: Path) -> None:
    """Removes every report in `out`, and nothing else that lies there. Raises UnusableInput where one stays."""
    for name in (SUMMARY_FILE, COVERAGE_FILE, WEIGHTED_FILE, HTML_FILE):
        store.remove_file(out / name)
    plots = out / PLOTS_FOLDER
    if plots.is_dir():
        for name in PLOTS:
            for ending in PLOT_ENDINGS:
                store.remove_file(plots / f"{name}{ending}")
        with suppress(OSError):  # A folder that holds anything else is not ours to remove.
            plots.rmdir()
