"""How a timed run measures: look by look until the judge has no question left, then its suspects in fresh processes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from gate.analysis import looks
from gate.commands.timed_tape import Rows, Tape, open_tape
from gate.commands.timed_work import Work
from gate.model.decision import RowFinding
from gate.model.policy import Policy
from gate.model.problem import Problem, UnusableInput
from gate.replay.blocks import BASE, HEAD
from gate.replay.job import Job, spread
from gate.replay.machine import Session
from gate.replay.token import Token

REPLAY_FOLDER, CONFIRM_FOLDER = "replay", "confirm"
# How many looks are measured before the judge is asked again: a call starts workers anew.
LOOKS_AT_ONCE = (1, 2, 4, 8)


class Judge(Protocol):
    """The findings on the rows so far, with those of the confirming session where there is one."""

    def __call__(self, rows: Rows, confirm: Rows | None = None, /) -> Sequence[RowFinding]: ...


@dataclass(slots=True, kw_only=True)
class MeasuredRun:
    """The rows of each side, those of the confirming session, and what ended the measuring early, if anything did."""

    rows: Rows
    confirm: Rows | None = None
    broken: tuple[Problem, ...] = ()
    sessions: list[Session] = field(default_factory=list)


def measure_all(
    out: Path, work: Work, timed: Mapping[str, Any], *, policy: Policy, judge: Judge, resume: bool
) -> MeasuredRun:
    """The looks, then the confirmation. Raises UnusableInput when nothing at all was measured."""
    minutes = timed["minutes"]
    timed = {**timed, "deadline": None if minutes is None else time.monotonic() + 60 * minutes}
    declared = policy.screen.looks if work.both else policy.screen.looks[:1]
    everything = [job.case.shape_id for job in work.jobs]
    tape = open_tape(out / REPLAY_FOLDER, work, timed, declared=declared, shapes=everything, resume=resume)
    found = MeasuredRun(rows={})
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
        # The self-test stands; what is held and timed is counted apart.
        again.machines = [replace(machine, token=Token(), shapes=0) for machine in tape.machines]
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


def confirm(tape: Tape, jobs: Sequence[Job], found: MeasuredRun, *, first: int, policy: Policy, judge: Judge) -> None:
    """Measures the suspects again in fresh processes, look by look, until each is settled; `found` gets the rows."""
    done, each, waiting = 0, policy.confirm.process_blocks, list(jobs)
    for number, processes in enumerate(policy.confirm.processes):
        if not waiting:
            return
        sizes = [each] * (processes - done)
        parts = spread(waiting, first=first + done * each, sizes=sizes, process=done)
        try:
            tape.measure(parts, title=f"confirm, look {number + 1}", pairs=max(len(sizes), 2))
        finally:
            # What the look has finished counts, however it ends; a shape that it has not is not judged by a part of it.
            found.confirm = tape.whole(policy.confirm.processes[: number + 1])
        done = processes
        assert found.confirm is not None, "a finished look has rows"
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
