"""`gate run --replay`: measure, confirm, judge, report, publish; what is finished is never measured twice."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click
import msgspec

from gate import store
from gate.analysis.judge import Inputs, judge
from gate.commands import judge_files, judged, timed_code, timed_part
from gate.commands.artifact_judge import stored_results, uncontradicted
from gate.commands.timed_session import CONFIRM_FOLDER, MeasuredRun, measure_all, unmeasured
from gate.commands.timed_tape import Rows, summed
from gate.commands.timed_work import Work, read_work
from gate.model.decision import CodeEvidence, Command, Decision, RowFinding
from gate.model.ledger import Ledger
from gate.model.outcome import Outcome, Results
from gate.model.policy import Policy
from gate.model.problem import Exit, GateError, Problem, UnusableInput
from gate.model.waiver import Waiver
from gate.replay.blocks import BASE, HEAD
from gate.resources import frozen_ledgers_dir

HEAD_ROWS, BASE_ROWS = "results", "base_results"
MOST_NAMED = 20
# The verbs of printed commands that read ledgers and ops.
TIMED_VERBS = ("gate replay ", "gate profile ")


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


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What the judgement needs beside the rows."""

    work: Work
    policy: Policy
    waivers: tuple[Waiver, ...]
    today: date
    given: Mapping[str, str | None]


def given_of(ledgers: Path, *, op_from: str | None) -> dict[str, str | None]:
    """What a printed command must be told, as a new call would not find it by itself."""
    found_anyway = ledgers.resolve() == frozen_ledgers_dir().resolve()
    return {"op_from": op_from, "ledgers": None if found_anyway else str(ledgers)}


def run(job: TimedJob) -> Decision:
    """The decision, written with its reports; an unusable input leaves a written no-verdict behind and is raised."""
    if job.resume:
        # What goes on is not judged yet, whatever it stumbles over; without --resume an earlier run is not ours.
        judged.clear(job.out)
    frame = Frame(
        work=read_work(job.ledgers, job.limits, job.timed, base=job.base),
        policy=judge_files.read_policy(job.policy),
        waivers=judge_files.read_waivers(job.waivers),
        today=timed_part.begin(job.out, resume=job.resume),
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
    decision = judge_rows(frame, found, root=job.ledgers, code=code)
    timed_part.write(job.out, work, found, job.timed, policy=frame.policy)
    return decision


def judge_rows(frame: Frame, found: MeasuredRun, *, root: Path, code: Mapping[str, CodeEvidence]) -> Decision:
    """The decision on what was measured; without a base of this session it is held against the stored one."""
    head, base = found.rows[HEAD], found.rows.get(BASE)
    again = None if found.confirm is None else (found.confirm[BASE], found.confirm[HEAD])
    stored = () if base is not None else _stored(root, head)
    decision = judge(inputs(frame, head, base or stored, confirm=again, code=code))
    decision = uncontradicted(decision)
    decision = msgspec.structs.replace(
        decision, scope=frame.work.scope, commands=tuple(pasteable(decision.commands, frame.work, given=frame.given))
    )
    missing = unmeasured(frame.work, found.rows)
    return unfinished(decision, missing, found.broken) if missing or found.broken else decision


def _stored(root: Path, head: Sequence[Outcome]) -> Sequence[Outcome]:
    arches = {row.arch for row in head if row.arch}
    return stored_results(root, arches.pop()).outcomes if len(arches) == 1 else ()


def inputs(
    frame: Frame,
    head: Sequence[Outcome],
    base: Sequence[Outcome] | None,
    *,
    confirm: tuple[Sequence[Outcome], Sequence[Outcome]] | None = None,
    code: Mapping[str, CodeEvidence] | None = None,
) -> Inputs:
    """Everything a judgement depends on."""
    wanted = {shape.shape_id for shape in frame.work.inputs.shapes}
    return Inputs(
        ledger=Ledger(shapes=frame.work.inputs.shapes),
        matrices=frame.work.inputs.matrices,
        base=Results(outcomes=tuple(row for row in base or () if row.shape_id in wanted)),
        head=Results(outcomes=tuple(head)),
        policy=frame.policy,
        waivers=frame.waivers,
        today=frame.today,
        code=code or {},
        confirm=None if confirm is None else (_results(confirm[0]), _results(confirm[1])),
    )


def _results(rows: Sequence[Outcome]) -> Results:
    return Results(outcomes=tuple(rows))


def unfinished(decision: Decision, missing: Sequence[str], broken: Sequence[Problem]) -> Decision:
    """No verdict, whatever the finished part says: it names what is missing and why."""
    named = ", ".join(missing[:MOST_NAMED]) + (f" and {len(missing) - MOST_NAMED} more" if missing[MOST_NAMED:] else "")
    what = [f"{len(missing)} shape{'s were' if missing[1:] else ' was'} not measured: {named}"] if missing else []
    told = [*(problem.what for problem in broken), *what]
    next_step = "run it again with --resume; what is finished is not measured twice"
    found = judged.withheld(decision, "not_finished", problems=told, next_step=next_step)
    return msgspec.structs.replace(found, summary=f"The run did not finish: {told[0]}. {decision.summary}")


def pasteable(commands: Sequence[Command], work: Work, *, given: Mapping[str, str | None]) -> list[Command]:
    """The commands with what this run was given and a new call would not find: candidate, ops' place, ledgers.

    A decision holds no path, so the folder of the ledgers is a variable; `given` is what `given_of` tells.
    """
    candidates = {matrix.candidate_provider for matrix in work.inputs.matrices.values()}
    (only,) = candidates if len(candidates) == 1 else (None,)
    more = [("gate replay ", f"--candidate {only}")] if only not in (None, "flydsl") else []
    if given["op_from"]:
        more += [(verb, shlex.join(["--op-from", given["op_from"]])) for verb in TIMED_VERBS]
    if given["ledgers"]:
        more += [(verb, '--ledgers "$LEDGERS"') for verb in TIMED_VERBS]
    return [_with(one, [text for verb, text in more if one.line.startswith(verb)]) for one in commands]


def _with(command: Command, more: Sequence[str]) -> Command:
    line = command.line.replace(" --out ", f" {' '.join([*more, '--out'])} ", 1)
    what = command.what + ("; LEDGERS: the folder that this run was given" if '"$LEDGERS"' in line else "")
    return Command(what=what, line=line)


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

    base = out / BASE_ROWS
    job = report.read_job(source=out, head=None, base=base if base.is_dir() else None, matrix=None, out=None)
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
            f"{whole.wall_s:.1f} s on {gpus} GPU{'s' if gpus > 1 else ''}: in use {held:.0%} of the time, measured on "
            f"{alone:.0%}, timed work {timed:.0%}",
            err=True,
        )
