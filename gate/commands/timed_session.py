"""How a timed run measures: look by look until the judge has no question left, then its suspects in fresh processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.analysis import looks
from gate.commands.progress import progress
from gate.commands.replay import choose_gpus, make_header, make_settings
from gate.commands.replay_output import manifest
from gate.commands.timed_work import Work
from gate.model.decision import RowFinding
from gate.model.outcome import Outcome
from gate.model.policy import Policy
from gate.model.problem import Problem, UnusableInput
from gate.replay.blocks import BASE, HEAD
from gate.replay.environment import machine as read_machine
from gate.replay.job import Job, spread
from gate.replay.journal import JOURNAL, Journal, merged, open_journal, read_lines
from gate.replay.machine import Session
from gate.replay.rows import both_sides, build_rows
from gate.replay.runner import measure

METHOD = "graph_slope"
REPLAY_FOLDER, CONFIRM_FOLDER = "replay", "confirm"
Rows = dict[str, list[Outcome]]
Judge = Callable[[Rows], Sequence[RowFinding]]


@dataclass(slots=True, kw_only=True)
class Measured:
    """The rows of each side, those of the confirming session, and what ended the measuring early, if anything did."""

    rows: Rows
    confirm: Rows | None = None
    broken: tuple[Problem, ...] = ()
    sessions: list[Session] = field(default_factory=list)
    suspects: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Tape:
    """A journal that is open, what is in it, and how to measure what is not."""

    work: Work
    options: dict[str, Any]
    measuring: tuple[str, tuple[int, ...], float, bool]
    journal: Journal
    header: dict[str, Any]
    records: list[dict[str, Any]]
    sessions: list[Session] = field(default_factory=list)

    def measure(self, jobs: Sequence[Job], *, title: str) -> None:
        """Measures the jobs that are not in the journal. Raises UnusableInput when measuring ended before the last."""
        done = {(record["shape_id"], record["process"]) for record in self.records}
        waiting = [job for job in jobs if (job.case.shape_id, job.process) not in done]
        if not waiting:
            return
        settings = make_settings(self.options, self.header, arms=self.work.arms, measuring=self.measuring)
        try:
            with progress(title, len(waiting)) as step:
                gpus = choose_gpus(self.options)
                session = measure(waiting, settings=settings, gpus=gpus, journal=self.journal, step=step)
        finally:
            self.records = [line for line in read_lines(self.options["out"] / JOURNAL) if "shape_id" in line]
        self.sessions.append(session)
        if session.stopped is not None:
            raise UnusableInput(Problem(what=session.stopped, file="", fix="let the machine settle, then --resume"))

    def rows(self, *, process: int | None = None) -> Rows:
        """The rows of each side from the records, or from those of the processes up to `process`."""
        kept = [record for record in self.records if process is None or record["process"] <= process]
        facts = {
            "session_id": self.header["session_id"],
            "seed": self.header["seed"],
            "method": METHOD,
            "both": self.work.both,
            "driver": read_machine()["driver"],
            "commits": {side: spec.commit for side, spec in self.work.arms.items()},
            "stopped": None,
        }
        records = merged(kept)
        return {
            side: build_rows(
                side=side,
                shapes=self.work.inputs.shapes,
                matrices=self.work.inputs.matrices,
                records=records,
                session=facts,
                not_selected=self.work.left_out,
            )
            for side in both_sides(facts)
        }

    def note(self, jobs: Sequence[Job]) -> None:
        """Writes the manifest of what has been measured."""
        seen = {record["shape_id"] for record in self.records}
        missing = [job.case.shape_id for job in jobs if job.case.shape_id not in seen]
        whole = summed(self.sessions)
        counts: dict[str, Any] = {}
        told = manifest(whole, self.header, counts=counts, missing=missing, wanted=len(jobs))
        store.write_json(self.options["out"] / "manifest.json", told)


def summed(sessions: Sequence[Session]) -> Session:
    """Several calls of `measure` as one session."""
    return Session(
        machines=[machine for session in sessions for machine in session.machines],
        wall_s=sum(session.wall_s for session in sessions),
        restarts=sum(session.restarts for session in sessions),
    )


def open_tape(
    folder: Path,
    work: Work,
    timed: Mapping[str, Any],
    *,
    declared: tuple[int, ...],
    shapes: Sequence[str],
    processes: int | None,
    resume: bool,
) -> Tape:
    """The journal in `folder`, begun or gone on with. Raises UnusableInput as `open_journal`."""
    options = {**timed, "out": folder, "base": True if work.both else None, "processes": processes}
    measuring = (METHOD, declared, float(timed["budget_us"]), True)
    selection = msgspec.structs.replace(work.selection, shapes=tuple(shapes))
    header = make_header(options, work.inputs, arms=work.arms, selection=selection, measuring=measuring)
    journal, finished, header = open_journal(folder, header=header, resume=resume)
    return Tape(work=work, options=options, measuring=measuring, journal=journal, header=header, records=finished)


def measure_all(
    out: Path, work: Work, timed: Mapping[str, Any], *, policy: Policy, judge: Judge, resume: bool
) -> Measured:
    """The looks, then the confirmation. Raises UnusableInput when nothing at all was measured."""
    declared = policy.screen.looks if work.both else policy.screen.looks[:1]
    everything = [job.case.shape_id for job in work.jobs]
    tape = open_tape(
        out / REPLAY_FOLDER, work, timed, declared=declared, shapes=everything, processes=None, resume=resume
    )
    try:
        plan = measure_looks(tape, declared, policy=policy, judge=judge)
    except UnusableInput as error:
        if not tape.records:
            raise
        return Measured(rows=tape.rows(), broken=error.problems, sessions=tape.sessions)
    finally:
        tape.note(work.jobs)
        tape.journal.close()
    found = Measured(rows=tape.rows(), sessions=tape.sessions)
    if plan is not None and plan.confirm:
        confirm(found, out / CONFIRM_FOLDER, work, timed, plan=plan, first=declared[-1], resume=resume)
    return found


def measure_looks(tape: Tape, declared: tuple[int, ...], *, policy: Policy, judge: Judge) -> looks.Plan | None:
    """Every shape to the first look; then, in fresh processes, those that the judge has not settled to the next."""
    jobs, first = tape.work.jobs, 0
    plan: looks.Plan | None = None
    for number, stop in enumerate(declared):
        parts = [replace(job, process=number, blocks=(first, stop)) for job in jobs]
        tape.measure(parts, title="replay" if number == 0 else f"look {number + 1}")
        if not tape.work.both:
            return None
        plan = looks.plan(judge(tape.rows(process=number)), policy)
        open_rows = {*plan.again, *plan.confirm}
        jobs = [alone(job) for job in jobs if job.case.shape_id in open_rows]
        first = stop
    return plan


def alone(job: Job) -> Job:
    """The job without its baselines: they are no part of the question that is still open."""
    return replace(job, targets=tuple(target for target in job.targets if target.arm.side in (HEAD, BASE)))


def confirm(
    found: Measured,
    folder: Path,
    work: Work,
    timed: Mapping[str, Any],
    *,
    plan: looks.Plan,
    first: int,
    resume: bool,
) -> None:
    """Measures the suspects in as many fresh process pairs as the policy asks for; adds the rows to `found`."""
    named = set(plan.confirm)
    jobs = [alone(job) for job in work.jobs if job.case.shape_id in named]
    tape = open_tape(
        folder,
        work,
        timed,
        declared=(plan.blocks,),
        shapes=plan.confirm,
        processes=plan.processes,
        resume=resume,
    )
    found.suspects = plan.confirm
    try:
        parts = spread(jobs, first=first, blocks=plan.blocks, processes=plan.processes)
        tape.measure(parts, title="confirm")
    except UnusableInput as error:
        found.broken = error.problems
    finally:
        tape.note(jobs)
        tape.journal.close()
    found.sessions += tape.sessions
    measured = {(record["shape_id"], record["process"]) for record in tape.records}
    whole = all((job.case.shape_id, job.process) in measured for job in parts)
    found.confirm = tape.rows() if whole else None


def unmeasured(work: Work, rows: Rows) -> list[str]:
    """The shapes that had to be measured and were not."""
    wanted = {job.case.shape_id for job in work.jobs}
    seen = {row.shape_id for row in rows[HEAD] if row.skip_reason != "not measured in this run"}
    return [shape.shape_id for shape in work.inputs.shapes if shape.shape_id in wanted - seen]
