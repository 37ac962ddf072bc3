"""What every verb that judges leaves behind: decision.json, regressions.jsonl and the texts for people."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import msgspec

from gate import store
from gate.analysis.decide import BLOCKING
from gate.commands import report_files
from gate.model.decision import Coverage, Decision, Environment, Geomean, RowFinding
from gate.model.problem import Exit, GateError, Problem, UnusableInput
from gate.model.reasons import sentence
from gate.replay import run_folder

DECISION_FILE = "decision.json"
REGRESSIONS_FILE = "regressions.jsonl"
EXITS = {"pass": Exit.PASS, "block": Exit.BLOCK, "no_verdict": Exit.NO_VERDICT}


@contextmanager
def without_collector() -> Iterator[None]:
    """No garbage collection meanwhile: a judgement makes millions of objects that all live to its end."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def write(decision: Decision, out: Path) -> None:
    """Writes every file of a judgement. Raises UnusableInput if the folder cannot be written."""
    # The templates are needed only once there is something to say.
    from gate import render

    try:
        store.write_jsonl(out / REGRESSIONS_FILE, worst_first(decision))
        for name, text in render.texts(decision).items():
            store.write_text(out / name, text)
        store.write_json(out / DECISION_FILE, decision)
    except UnusableInput:
        # A disk that fills up must not leave a green status without its decision.
        clear(out)
        raise


@contextmanager
def anew(out: Path) -> Iterator[None]:
    """Holds the folder for one judgement; that of an earlier call is gone.

    Raises UnusableInput if another process holds it, WrongUsage where it holds a run, whose verdict stays.
    """
    with store.output_lock(out):
        run_folder.spare(out)
        clear(out)
        yield


def forget(out: Path) -> None:
    """After wrong usage, which is told elsewhere: removes an earlier judgement, if `out` is there and free for one."""
    if out.is_dir():
        with suppress(GateError), anew(out):
            pass


def clear(out: Path) -> None:
    """Removes an earlier judgement and its reports, so that no old verdict stands beside or instead of a new one.

    Raises UnusableInput where a file stays.
    """
    texts = ("comment.md", "status.json", "step_summary.md", "regression_summary.md")
    for name in (DECISION_FILE, REGRESSIONS_FILE, *texts):
        store.remove_file(out / name)
    report_files.clear(out)


def show(decision: Decision, out: Path, *, as_json: bool = False) -> None:
    """Prints the decision for a person, or decision.json for a machine; a broken output never changes the verdict."""
    try:
        _print(decision, out, as_json=as_json)
        sys.stdout.flush()
    except (OSError, SystemExit):  # rich turns a closed pipe into SystemExit
        click.echo(f"gate: standard output cannot be written; the verdict is in {out}", err=True)
        # What Python still holds back would fail again at exit and replace the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(decision: Decision, out: Path, *, as_json: bool) -> None:
    if as_json:
        click.echo(store.encode(decision))
        return
    from rich.console import Console

    from gate.render import terminal

    terminal.show(decision, Console(soft_wrap=True))
    click.echo(f"written to {out}: comment.md, {DECISION_FILE}, {REGRESSIONS_FILE}")


def warn(problems: Iterable[Problem]) -> None:
    """One line on stderr for each problem of an input that is judged all the same."""
    for problem in problems:
        click.echo(f"gate: {problem}", err=True)


def worst_first(decision: Decision) -> list[RowFinding]:
    """The blocking rows: broken ones, then by how much slower they are."""
    blocking = [row for row in decision.rows if row.verdict in BLOCKING]
    return sorted(blocking, key=lambda row: (row.ratio is not None, -(row.ratio or 0.0), row.op_type, row.shape_id))


def withheld(decision: Decision, reason: str, *, problems: Sequence[str], next_step: str) -> Decision:
    """The same rows without a verdict, whatever they say; `reason` and `problems` stand before the others."""
    return msgspec.structs.replace(
        decision,
        gate="no_verdict",
        decision="blocked",
        headline="no_verdict",
        reasons=(reason, *(each for each in decision.reasons if each != reason)),
        next_step=next_step,
        problems=(*problems, *decision.problems),
    )


def unusable(problems: tuple[Problem, ...]) -> Decision:
    """The decision of a run whose inputs could not be used: no verdict, never green."""
    return Decision(
        gate="no_verdict",
        decision="blocked",
        headline="no_verdict",
        reasons=("unusable_input",),
        summary=f"Nothing was judged: {_without_folder(problems[0]) if problems else sentence('unusable_input')}.",
        next_step="correct the input named under problems, then judge again",
        kind="timing",
        counts={"total": 0},
        coverage=Coverage(required=0, judged=0, measured=0, share=0.0, required_share=1.0),
        geomean=Geomean(),
        rows=(),
        environment=Environment(base={}, head={}),
        problems=tuple(_without_folder(problem) for problem in problems),
    )


def _without_folder(problem: Problem) -> str:
    """The problem with the file's name only: a folder may differ between equal inputs."""
    name = Path(problem.file).name
    where = name if problem.line is None else f"{name}:{problem.line}"
    text = f"{where}: {problem.what}" if where else problem.what
    return f"{text}; {problem.fix}" if problem.fix else text
