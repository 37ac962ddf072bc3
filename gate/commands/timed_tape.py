"""A timed run's journal while it is open: measures what is not in it yet, and turns what is into rows."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.commands.progress import progress
from gate.commands.replay import choose_gpus, make_header, make_settings
from gate.commands.replay_output import manifest
from gate.commands.starting import arms_start
from gate.commands.timed_work import Work
from gate.model.outcome import Outcome
from gate.model.problem import Problem, UnusableInput
from gate.replay.environment import machine as read_machine
from gate.replay.job import MOST_LANES, Job
from gate.replay.journal import Journal, merged, open_journal
from gate.replay.journal_lines import JOURNAL, read_lines
from gate.replay.machine import Machine, Session
from gate.replay.rows import both_sides, build_rows
from gate.replay.runner import measure

METHOD, MANIFEST = "graph_slope", "manifest.json"
FIX = "remove it, then --resume: what it counted is then lost, and no row"
Rows = dict[str, list[Outcome]]


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """What a resumed run adds to what the manifest said before."""

    wall_s: float = 0.0
    timed_gpu_s: float = 0.0
    token_held_s: float = 0.0
    measuring_s: float = 0.0
    worker_restarts: int = 0


ADDED_UP = Earlier.__struct_fields__


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

        Raises UnusableInput when measuring ended before the last job, or an arm's interpreter cannot be started.
        """
        done = {(record["shape_id"], record["process"]) for record in self.records}
        waiting = [job for job in jobs if (job.case.shape_id, job.process) not in done]
        if not waiting:
            return
        settings = make_settings(self.options, self.header, arms=self.work.arms, measuring=self.measuring)
        if pairs > 1:
            settings = replace(settings, lanes=min(pairs, MOST_LANES), pinned=True)
        gpus = choose_gpus(self.options)
        self.machines = self.machines or [Machine(gpu=gpu) for gpu in gpus]
        # What a call that breaks off has measured counts as well.
        session, began = Session(machines=self.machines), time.monotonic()
        try:
            with progress(title, len(waiting)) as step, arms_start(self.work.arms):
                session = measure(
                    waiting,
                    settings=settings,
                    gpus=gpus,
                    journal=self.journal,
                    step=self.timely(step),
                    machines=self.machines,
                )
        finally:
            session.wall_s = time.monotonic() - began
            self.sessions.append(session)
            self.records = [line for line in read_lines(self.options["out"] / JOURNAL) if "shape_id" in line]
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
        return self._rows([record for record in self.records if process is None or record["process"] <= process])

    def whole(self, looks: Sequence[int]) -> Rows | None:
        """The rows of each side, each shape up to the last of `looks`, told in process pairs, that it has finished.

        A shape that has finished none has not been measured; None when that is every shape.
        """
        seen: defaultdict[str, set[int]] = defaultdict(set)
        for record in self.records:
            seen[record["shape_id"]].add(record["process"])
        upto = {
            shape_id: max((look for look in looks if found >= set(range(look))), default=0)
            for shape_id, found in seen.items()
        }
        kept = [record for record in self.records if record["process"] < upto[record["shape_id"]]]
        return self._rows(kept) if kept else None

    def _rows(self, kept: Sequence[dict[str, Any]]) -> Rows:
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
        path = self.options["out"] / MANIFEST
        try:
            earlier = store.read_record(path, Earlier, what="a manifest", fix=FIX) if path.is_file() else Earlier()
            store.write_json(path, {**told, **{name: told[name] + getattr(earlier, name) for name in ADDED_UP}})
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
