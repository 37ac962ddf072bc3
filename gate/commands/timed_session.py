"""How a timed run measures: look by look until the judge has no question left, then its suspects in fresh processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

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
from gate.replay.job import MOST_LANES, Job, spread
from gate.replay.journal import JOURNAL, Journal, merged, open_journal, read_lines
from gate.replay.machine import Machine, Session
from gate.replay.rows import both_sides, build_rows
from gate.replay.runner import measure

METHOD = "graph_slope"
REPLAY_FOLDER, CONFIRM_FOLDER = "replay", "confirm"
# How many looks are measured before the judge is asked again: a call starts workers anew.
LOOKS_AT_ONCE = (1, 2, 4, 8)
Rows = dict[str, list[Outcome]]


class Judge(Protocol):
    """The findings on the rows so far, with those of the confirming session where there is one."""

    def __call__(self, rows: Rows, confirm: Rows | None = None, /) -> Sequence[RowFinding]: ...


@dataclass(slots=True, kw_only=True)
class Measured:
    """The rows of each side, those of the confirming session, and what ended the measuring early, if anything did."""

    rows: Rows
    confirm: Rows | None = None
    broken: tuple[Problem, ...] = ()
    sessions: list[Session] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Tape:
    """A journal that is open, what is in it, and how to measure what is not; `deadline` is of time.monotonic."""

    work: Work
    options: dict[str, Any]
    measuring: tuple[str, tuple[int, ...], float, bool]
    journal: Journal
    header: dict[str, Any]
    records: list[dict[str, Any]]
    deadline: float | None
    machines: list[Machine] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)

    def measure(self, jobs: Sequence[Job], *, title: str, pairs: int = 1) -> None:
        """Measures the jobs that are not in the journal, with `pairs` process pairs at a time where there are several.

        Raises UnusableInput when measuring ended before the last job.
        """
        done = {(record["shape_id"], record["process"]) for record in self.records}
        waiting = [job for job in jobs if (job.case.shape_id, job.process) not in done]
        if not waiting:
            return
        settings = make_settings(self.options, self.header, arms=self.work.arms, measuring=self.measuring)
        if pairs > 1:
            settings = replace(settings, lanes=min(pairs, MOST_LANES), pinned=True)
        try:
            gpus = choose_gpus(self.options)
            self.machines = self.machines or [Machine(gpu=gpu) for gpu in gpus]
            with progress(title, len(waiting)) as step:
                session = measure(
                    waiting,
                    settings=settings,
                    gpus=gpus,
                    journal=self.journal,
                    step=self.timely(step),
                    machines=self.machines,
                )
        finally:
            self.records = [line for line in read_lines(self.options["out"] / JOURNAL) if "shape_id" in line]
        self.sessions.append(session)
        if session.stopped is not None:
            raise UnusableInput(Problem(what=session.stopped, file="", fix="let the machine settle, then --resume"))

    def timely(self, step: Callable[[str], None]) -> Callable[[str], None]:
        """`step`, which ends the session once its time is over."""

        def told(item: str) -> None:
            step(item)
            if self.deadline is not None and time.monotonic() >= self.deadline:
                raise UnusableInput(Problem(what="the time of --minutes is over", file="", fix="go on with --resume"))

        return told

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

    def close(self, jobs: Sequence[Job]) -> None:
        """Writes the manifest of what has been measured, and gives the journal's lock back."""
        seen = {record["shape_id"] for record in self.records}
        missing = [job.case.shape_id for job in jobs if job.case.shape_id not in seen]
        told = manifest(summed(self.sessions), self.header, counts={}, missing=missing, wanted=len(jobs))
        try:
            store.write_json(self.options["out"] / "manifest.json", told)
        finally:
            self.journal.close()


def summed(sessions: Sequence[Session]) -> Session:
    """Several calls of `measure` on the same machines as one session."""
    return Session(
        machines=list({id(machine): machine for session in sessions for machine in session.machines}.values()),
        wall_s=sum(session.wall_s for session in sessions),
        restarts=sum(session.restarts for session in sessions),
    )


def open_tape(
    folder: Path,
    work: Work,
    timed: Mapping[str, Any],
    *,
    declared: tuple[int, ...],
    shapes: Iterable[str],
    resume: bool,
) -> Tape:
    """The journal in `folder`, begun or gone on with. Raises UnusableInput as `open_journal`."""
    options = {**timed, "out": folder, "base": True if work.both else None}
    measuring = (METHOD, declared, float(timed["budget_us"]), True)
    selection = msgspec.structs.replace(work.selection, shapes=tuple(shapes))
    header = make_header(options, work.inputs, arms=work.arms, selection=selection, measuring=measuring)
    journal, finished, header = open_journal(folder, header=header, resume=resume)
    return Tape(
        work=work,
        options=options,
        measuring=measuring,
        journal=journal,
        header=header,
        records=finished,
        deadline=timed["deadline"],
    )


def measure_all(
    out: Path, work: Work, timed: Mapping[str, Any], *, policy: Policy, judge: Judge, resume: bool
) -> Measured:
    """The looks, then the confirmation. Raises UnusableInput when nothing at all was measured."""
    minutes = timed["minutes"]
    timed = {**timed, "deadline": None if minutes is None else time.monotonic() + 60 * minutes}
    declared = policy.screen.looks if work.both else policy.screen.looks[:1]
    everything = [job.case.shape_id for job in work.jobs]
    tape = open_tape(out / REPLAY_FOLDER, work, timed, declared=declared, shapes=everything, resume=resume)
    found = Measured(rows={})
    try:
        suspects = measure_looks(tape, declared, policy=policy, judge=judge)
    except UnusableInput as error:
        if not tape.records:
            raise
        suspects, found.broken = (), error.problems
    finally:
        tape.close(work.jobs)
    found.rows, found.sessions = tape.rows(), tape.sessions
    if suspects:
        jobs = [alone(job) for job in work.jobs if job.case.shape_id in set(suspects)]
        again = open_tape(
            out / CONFIRM_FOLDER, work, timed, declared=policy.confirm.processes, shapes=suspects, resume=resume
        )
        again.machines = tape.machines
        try:
            confirm(again, jobs, found, first=declared[-1], policy=policy, judge=judge)
        except UnusableInput as error:
            found.broken = error.problems
        finally:
            again.close(jobs)
        found.sessions += again.sessions
    return found


def measure_looks(tape: Tape, declared: tuple[int, ...], *, policy: Policy, judge: Judge) -> tuple[str, ...]:
    """Every shape to the first look; then those that the judge has not settled, in fresh processes. The suspects."""
    jobs, done = tape.work.jobs, 0
    for at_once in LOOKS_AT_ONCE + (1,) * len(declared):
        ahead = [look for look in declared if look > done][:at_once]
        if not ahead or not jobs:
            break
        number = declared.index(ahead[0])
        sizes = [stop - start for start, stop in zip([done, *ahead], ahead, strict=False)]
        parts = spread(jobs, first=done, sizes=sizes, process=number)
        tape.measure(parts, title="replay" if number == 0 else f"look {number + 1}", pairs=len(sizes))
        done = ahead[-1]
        if not tape.work.both:
            return ()
        plan = looks.plan(judge(tape.rows(process=declared.index(done))), policy)
        jobs = [alone(job) for job in jobs if job.case.shape_id in set(plan.again)]
    return plan.confirm if done else ()


def alone(job: Job) -> Job:
    """The job without its baselines: they are no part of the question that is still open."""
    return replace(job, targets=tuple(target for target in job.targets if target.arm.side in (HEAD, BASE)))


def confirm(tape: Tape, jobs: Sequence[Job], found: Measured, *, first: int, policy: Policy, judge: Judge) -> None:
    """Measures the suspects again in fresh processes, look by look, until each is settled; `found` gets the rows."""
    done, each, waiting = 0, policy.confirm.process_blocks, list(jobs)
    for number, processes in enumerate(policy.confirm.processes):
        if not waiting:
            return
        sizes = [each] * (processes - done)
        parts = spread(waiting, first=first + done * each, sizes=sizes, process=done)
        tape.measure(parts, title=f"confirm, look {number + 1}", pairs=max(len(sizes), 2))
        done = processes
        found.confirm = tape.rows(process=done - 1)
        settled = {row.shape_id for row in judge(found.rows, found.confirm) if row.verdict == "regressed"}
        settled |= {row.shape_id for row in judge(found.confirm) if clean(row, policy)}
        waiting = [job for job in waiting if job.case.shape_id not in settled]


def clean(row: RowFinding, policy: Policy) -> bool:
    """Whether more blocks could not make a regression of it."""
    return row.verdict in ("unchanged", "improved") and (row.ratio or 0.0) <= 1 + policy.thresholds.slower


def unmeasured(work: Work, rows: Rows) -> list[str]:
    """The shapes that had to be measured and were not."""
    wanted = {job.case.shape_id for job in work.jobs}
    seen = {row.shape_id for row in rows[HEAD] if row.skip_reason != "not measured in this run"}
    return [shape.shape_id for shape in work.inputs.shapes if shape.shape_id in wanted - seen]
