"""`gate report`: the longer texts and the HTML page of a judged run, from decision.json and the result rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import msgspec

from gate import store
from gate.commands import judge_files
from gate.commands.judged import DECISION_FILE, without_collector
from gate.commands.report_files import COVERAGE_FILE, HTML_FILE, PLOTS_FOLDER, SUMMARY_FILE, WEIGHTED_FILE
from gate.model.decision import Decision
from gate.model.problem import Problem, UnusableInput
from gate.model.report import Rollup, Trend
from gate.replay import run_folder

INPUT = click.Path(path_type=Path)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What was judged, rolled up, and where the reports go."""

    decision: Decision
    rollup: Rollup
    out: Path
    history: tuple[Trend, ...] = ()
    png: bool = False


@click.group("report", short_help="Summaries, coverage and the HTML report of a judged run.")
def command() -> None:
    """Reports of a judged run. They repeat the verdict and never make one: the exit code is 0 once they are written."""


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--from", "source", type=INPUT, required=True, help=f"Folder with {DECISION_FILE}."),
        click.option("--head", type=INPUT, help="Result rows of head, file or folder. Default: those in --from."),
        click.option(
            "--base", type=INPUT, help="Result rows of base, for the controls row by row. Default: as --head."
        ),
        click.option("--matrix", type=INPUT, help="baseline_matrix.yaml, or a folder with one per op."),
        click.option("--out", type=INPUT, help="Folder to write to. Default: --from."),
        click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON and write nothing."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def read_job(
    *,
    source: Path,
    head: Path | None,
    base: Path | None,
    matrix: Path | None,
    out: Path | None,
    history: Path | None = None,
    png: bool = False,
) -> Job:
    """Everything a report needs, read and rolled up. Raises UnusableInput for a file that cannot be used."""
    from gate.analysis.rollup import NOTHING, rollup

    decision = read_decision(source / DECISION_FILE)
    head = head or _results_in(source / "results", source)
    base = base or _results_in(source / "base_results")
    return Job(
        decision=decision,
        rollup=rollup(
            decision,
            head=judge_files.read_measured(head) if head else NOTHING,
            base=judge_files.read_measured(base) if base else NOTHING,
            matrices=judge_files.read_matrices(matrix) if matrix else {},
        ),
        out=out or source,
        history=() if history is None else read_history(history),
        png=png,
    )


def _results_in(*places: Path) -> Path | None:
    """The first of the places where a run leaves the rows of one side that has any."""
    return next((place for place in places if judge_files.found(place, store.RESULTS_FILE) and place.is_dir()), None)


def read_decision(path: Path) -> Decision:
    """The decision in `path`. Raises UnusableInput if it is not one."""
    return store.read_record(path, Decision, what="a decision", fix="write it with gate judge or gate run")


def read_history(path: Path) -> tuple[Trend, ...]:
    """The history in `path`, JSON lines of commit, series and speedup, oldest first. Raises UnusableInput."""
    points, problems = store.decode_lines(path, Trend)
    if problems:
        raise UnusableInput(*problems)
    return tuple(point for _, point in points)


def write_summary(job: Job) -> list[str]:
    """benchmark_summary.md."""
    from gate.render import summaries

    store.write_text(job.out / SUMMARY_FILE, summaries.benchmark_summary(job.decision, job.rollup))
    return [SUMMARY_FILE]


def write_coverage(job: Job) -> list[str]:
    """coverage_matrix.md. Raises UnusableInput where no result row was given: nothing can be said of coverage."""
    from gate.render import summaries

    if not job.rollup.covers:
        problem = Problem(what="no result rows to tell coverage from", file=str(job.out), fix="name them with --head")
        raise UnusableInput(problem)
    store.write_text(job.out / COVERAGE_FILE, summaries.coverage_matrix(job.decision, job.rollup))
    return [COVERAGE_FILE]


def write_weighted(job: Job) -> list[str]:
    """weighted_summary.md."""
    from gate.render import summaries

    store.write_text(job.out / WEIGHTED_FILE, summaries.weighted_summary(job.decision, job.rollup))
    return [WEIGHTED_FILE]


def write_html(job: Job) -> list[str]:
    """report.html, and every plot as SVG (and PNG if asked). Raises UnusableInput without the plotting library."""
    html, plot_style = _drawing(job.out)
    drawn = html.pictures(job.decision, job.rollup, job.history)
    store.write_text(job.out / HTML_FILE, html.page(job.decision, job.rollup, drawn))
    written = [HTML_FILE]
    for plot in drawn:
        if plot.figure is not None:
            store.write_text(job.out / PLOTS_FOLDER / f"{plot.name}.svg", plot_style.svg(plot) + "\n")
            written.append(f"{PLOTS_FOLDER}/{plot.name}.svg")
            if job.png:
                store.write_bytes(job.out / PLOTS_FOLDER / f"{plot.name}.png", plot_style.png(plot))
                written.append(f"{PLOTS_FOLDER}/{plot.name}.png")
    return written


def _drawing(out: Path, *, written: Sequence[str] = ()) -> tuple[ModuleType, ModuleType]:
    """What makes the page and its plots. Raises UnusableInput, which tells what is `written`, without the library."""
    try:
        from gate.render import html, plot_style
    except ImportError as error:
        before = f"written: {', '.join(written)}; " if written else ""
        what = f"{before}not written: {HTML_FILE} and {PLOTS_FOLDER}/, which need {error.name}"
        fix = "pip install 'flydsl-gate[report]'"
        raise UnusableInput(Problem(what=what, file=str(out), fix=fix)) from None
    return html, plot_style


def write_all(job: Job) -> list[str]:
    """Every report; the coverage matrix only where there are result rows."""
    coverage = write_coverage(job) if job.rollup.covers else []
    texts = [*write_summary(job), *coverage, *write_weighted(job)]
    _drawing(job.out, written=texts)
    return [*texts, *write_html(job)]


def _run(write: Callable[[Job], list[str]], *, as_json: bool, **inputs: Any) -> int:
    with without_collector():
        if as_json:
            click.echo(store.encode(read_job(**inputs).rollup))
            return 0
        # A folder without a decision gets no lock either.
        store.read_start(inputs["source"] / DECISION_FILE)
        out = inputs["out"] or inputs["source"]
        with store.output_lock(out):
            if out.resolve() != inputs["source"].resolve():
                run_folder.spare(out)
            # Read under the lock: a run that replaces the decision must not find a report of it afterwards.
            job = read_job(**inputs)
            written = write(job)
    click.echo(f"written to {job.out}: {', '.join(written)}")
    return 0


def _verb(name: str, write: Callable[[Job], list[str]], text: str, *, pictures: bool = False) -> None:
    function = _options(update_wrapper(partial(_run, write), write))
    if pictures:
        function = click.option("--history", type=INPUT, help="JSON lines of commit, series, speedup; oldest first.")(
            function
        )
        function = click.option("--png", is_flag=True, help="Write each plot as PNG too.")(function)
    command.add_command(click.command(name, short_help=text, help=text)(function))


_verb("summary", write_summary, f"{SUMMARY_FILE}: the standing against every baseline, and how to repeat it.")
_verb("coverage", write_coverage, f"{COVERAGE_FILE}: which provider has what on which shape.")
_verb("weighted", write_weighted, f"{WEIGHTED_FILE}: the standing by traffic weight.")
_verb("html", write_html, f"{HTML_FILE}: one page with plots and a table of all rows.", pictures=True)
_verb("all", write_all, "All of them.", pictures=True)
