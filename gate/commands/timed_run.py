"""`gate run --replay`: measure, confirm, judge, report, publish; what is finished is never measured twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.analysis.judge import judge
from gate.commands import begun, judge_files, judged, timed_code, timed_part
from gate.commands.printed import given_of
from gate.commands.replay import parse_arms
from gate.commands.timed_judge import Frame, inputs, judge_rows
from gate.commands.timed_session import CONFIRM_FOLDER, MeasuredRun, measure_all
from gate.commands.timed_tape import Rows, summed
from gate.commands.timed_work import Work, read_work
from gate.model.decision import Decision, RowFinding
from gate.model.outcome import Outcome
from gate.model.problem import Exit, GateError, UnusableInput
from gate.model.text import counted
from gate.replay import run_folder
from gate.replay.blocks import BASE, HEAD

HEAD_ROWS, BASE_ROWS = "results", "base_results"


class TimedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A timed run: `timed` are the values of `timed_options`, `sources` those of `codegen_sides.side_options`."""

    ledgers: Path
    out: Path
    limits: Any
    base: str | None
    timed: dict[str, Any]
    sources: dict[str, Any]
    policy: Path | None
    waivers: Path | None
    resume: bool


def run(job: TimedJob) -> Decision:
    """The decision, written with its reports; an unusable input leaves a written no-verdict behind and is raised.

    Raises as `run_folder.claim`, before anything is removed, where the folder holds what is not this run's.
    """
    asked = asked_of(job)
    goes_on = run_folder.claim(job.out, run_folder.TIMED, asked=asked, resume=job.resume)
    if job.resume:
        # What goes on is not judged yet, whatever it stumbles over; without --resume an earlier run is not ours.
        judged.clear(job.out)
    frame = Frame(
        work=read_work(job.ledgers, job.limits, job.timed, base=job.base),
        policy=judge_files.read_policy(job.policy),
        waivers=judge_files.read_waivers(job.waivers),
        today=begun.timed(job.out, asked, goes_on=goes_on),
        given=given_of(job.ledgers, op_from=job.timed["op_from"]),
    )
    judged.clear(job.out)
    try:
        decision = decide(job, frame)
    except UnusableInput as error:
        judged.write(judged.unusable(error.problems), job.out)
        raise
    judged.write(decision, job.out)
    write_reports(job.out)
    return decision


def asked_of(job: TimedJob) -> dict[str, Any]:
    """What decides what is measured, by option. Raises WrongUsage for an arm that is none."""
    names = ("candidate", "providers", "stages", "limit", "shard", "op_from", "simulate", "seed", "budget_us")
    arms = parse_arms({**job.timed, "base": job.base})
    return {
        "the arms": {
            side: [spec.python, *spec.path, *spec.ld, *map("=".join, spec.env)] for side, spec in arms.items()
        },
        "the commits": {side: str(spec.commit) for side, spec in arms.items()},
        "--base": "given" if job.base is not None else "",
        **begun.selection(ops=job.limits.ops, shapes=job.limits.shapes),
        **{f"--{name.replace('_', '-')}": begun.text(job.timed[name]) for name in names},
    }


def decide(job: TimedJob, frame: Frame) -> Decision:
    """Measure, compile, judge."""
    work = frame.work

    def screen(rows: Rows, confirm: Rows | None = None, /) -> Sequence[RowFinding]:
        again = None if confirm is None else (confirm[BASE], confirm[HEAD])
        return judge(inputs(frame, rows[HEAD], rows.get(BASE), confirm=again)).rows

    found = measure_all(job.out, work, job.timed, policy=frame.policy, judge=screen, resume=job.resume)
    write_rows(job.out, work, found)
    tell(found)
    judged.warn(found.broken)
    code = timed_code.evidence(
        job.sources,
        work,
        frame.policy,
        ledgers=job.ledgers,
        out=job.out,
        wanted=job.timed["code"],
        resume=job.resume,
    )
    decision = judge_rows(frame, found, root=job.ledgers, code=code.of_shape)
    decision = timed_code.repeating(decision, code, ledgers=job.ledgers, policy=job.policy)
    timed_part.write(job.out, work, found, job.timed, judged_by=(frame.policy, frame.waivers))
    return decision


def write_rows(out: Path, work: Work, found: MeasuredRun) -> None:
    """results/<op>/ of head, base_results/<op>/, and confirm/head|base/<op>/."""
    places = {HEAD: out / HEAD_ROWS, BASE: out / BASE_ROWS}
    op_of = {shape.shape_id: shape.op_type for shape in work.inputs.shapes}
    for rows, folders in (
        (found.rows, places),
        (found.confirm or {}, {side: out / CONFIRM_FOLDER / side for side in (HEAD, BASE)}),
    ):
        for side, outcomes in rows.items():
            by_op: dict[str, list[Outcome]] = {op: [] for op in work.inputs.matrices}
            for row in outcomes:
                by_op[op_of[row.shape_id]].append(row)
            for op, own in by_op.items():
                store.write_results(folders[side] / op / store.RESULTS_FILE, own)


def write_reports(out: Path) -> None:
    """The longer texts and the HTML page; what cannot be drawn here is told and changes no verdict."""
    from gate.commands import report

    job = report.read_job(source=out, head=None, base=None, matrix=None, out=None)
    for write in (report.write_summary, report.write_coverage, report.write_weighted, report.write_html):
        try:
            write(job)
        except UnusableInput as error:
            judged.warn(error.problems)


def publish(job: TimedJob) -> int:
    """Posts the decision; its exit code."""
    from gate.commands.publish import command

    words = ["--from", str(job.out)]
    for name in ("repo", "pr", "sha"):
        if job.timed[name] is not None:
            words += [f"--{name}", str(job.timed[name])]
    try:
        code: Any = command.main(args=words, prog_name="gate publish", standalone_mode=False)
    except GateError as error:
        # The verdict stands and is written; that nobody was told of it makes a pass a 2.
        judged.warn(error.problems)
        return Exit.NO_VERDICT
    return int(code or 0)


def tell(found: MeasuredRun) -> None:
    """How the machines' time was spent, one line."""
    whole = summed(found.sessions)
    if whole.wall_s > 0:
        gpus = len({machine.gpu for machine in whole.machines})
        held, alone, timed = (seconds / whole.wall_s / gpus for seconds in whole.busy_s)
        click.echo(
            f"{whole.wall_s:.1f} s on {counted(gpus, 'GPU')}: in use {held:.0%} of the time, measured on "
            f"{alone:.0%}, timed work {timed:.0%}",
            err=True,
        )
