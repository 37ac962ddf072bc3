"""Where the result rows of a run lie, and how the rows of many runs get into the history."""

from __future__ import annotations

import os
from collections import ChainMap, deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import cast

import msgspec

from gate import store, workers
from gate.commands import judge_files
from gate.commands.timed_run import BASE_ROWS, HEAD_ROWS
from gate.history import append, decoding
from gate.history.block import Block
from gate.model.history import Run
from gate.model.problem import Problem, UnusableInput

# From this many runs on, starting processes costs less than it saves.
MANY = 16
# Runs of each process that are read ahead of the one that is written; their files wait in memory.
AHEAD = 4


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run to add; `name` and `at` are those of the command line, if given."""

    source: Path
    store: Path
    name: str
    at: datetime | None


class Addition(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run: added, known already, or the problems for which none of its rows was added."""

    source: Path
    added: append.Added | None = None
    problems: tuple[Problem, ...] = ()


def sides_of(source: Path) -> dict[str, list[Path]]:
    """The result files of each side, as `gate replay`, `gate artifact take`, `gate run` or hand leaves them."""
    pairs = [(source / "head", source / "base"), (source / HEAD_ROWS, source / BASE_ROWS)]
    head, base = next((pair for pair in pairs if pair[0].is_dir()), (source, source / "base"))
    places = {"head": head, "base": base}
    found = {side: judge_files.found(place, store.RESULTS_FILE) for side, place in places.items() if place.exists()}
    return {side: files for side, files in found.items() if files}


def read(source: Path) -> tuple[dict[str, list[Block]], datetime]:
    """The rows of a run, and when the newest of its files was written. Raises UnusableInput for any refused row."""
    sides = sides_of(source) if source.exists() else {}
    if "head" not in sides:
        what = f"no {store.RESULTS_FILE}" if source.is_dir() else "no such file or folder"
        raise UnusableInput(Problem(what=what, file=str(source), fix="give the folder of a run, or a results file"))
    rows: dict[str, list[Block]] = {}
    problems: list[Problem] = []
    for side, files in sides.items():
        rows[side], refused = decoding.read(files, regular=store.regular, decode=store.decode_bulk)
        problems += refused
    if problems:
        raise UnusableInput(*problems)
    if not rows["head"]:
        raise UnusableInput(Problem(what="no rows", file=str(source), fix="measure first"))
    return rows, datetime.fromtimestamp(max(file.stat().st_mtime for files in sides.values() for file in files), UTC)


Ready = append.Prepared | tuple[Problem, ...]


def add_all(jobs: Sequence[Job], *, processes: int | None = None) -> Generator[Addition, None, None]:
    """Adds each run or none of its rows, in the order given; runs that the store has already are left.

    Up to `processes` (default: one a usable CPU) read many runs; this one alone writes, so that the files and what is
    said do not depend on how many there are. Raises UnusableInput where a process ends before its work: the runs
    before that one are in the store then, the others are not.
    """
    new: dict[str, Run] = {}
    have = ChainMap(new, cast(dict[str, Run], append.Known(jobs[0].store)))
    processes = min(processes or len(os.sched_getaffinity(0)), len(jobs))
    many = processes > 1 and len(jobs) >= MANY
    with closing(_by_processes(jobs, have, processes) if many else _by_turns(jobs, have)) as found:
        for job, ready in found:
            outcome = _add(job, ready, have)
            if outcome.added is not None:
                new[outcome.added.run.key] = outcome.added.run
            yield outcome


def _by_turns(jobs: Sequence[Job], have: Mapping[str, Run]) -> Generator[tuple[Job, Ready], None, None]:
    for job in jobs:
        yield job, _ready(job, have)


def _by_processes(
    jobs: Sequence[Job], have: Mapping[str, Run], processes: int
) -> Generator[tuple[Job, Ready], None, None]:
    # Loaded before the processes start, so that each need not load it; what is known goes to each of them once.
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    waiting: deque[tuple[Job, Future[Ready]]] = deque()
    pool = ProcessPoolExecutor(processes, get_context("fork"), initializer=_begin, initargs=(have,))
    try:
        for job in jobs:
            waiting.append((job, _submitted(pool, job)))
            if len(waiting) > AHEAD * processes:
                yield _result(*waiting.popleft())
        while waiting:
            yield _result(*waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(pool: ProcessPoolExecutor, job: Job) -> Future[Ready]:
    try:
        return pool.submit(_ready_here, job)
    except BrokenProcessPool as error:
        # Told in its turn: what was read before still gets in.
        broken: Future[Ready] = Future()
        broken.set_exception(error)
        return broken


def _result(job: Job, future: Future[Ready]) -> tuple[Job, Ready]:
    try:
        return job, future.result()
    except BrokenProcessPool:
        what = "not added, nor the runs after it: a process that reads runs was killed, perhaps for want of memory"
        raise UnusableInput(Problem(what=what, file=str(job.source), fix="run it again with --jobs 1")) from None


# The runs that the store holds, in a process that reads some of many.
_HAVE: list[Mapping[str, Run]] = []


def _begin(have: Mapping[str, Run]) -> None:
    """Readies a process that reads runs."""
    workers.begin()
    _HAVE.append(have)


def _ready_here(job: Job) -> Ready:
    return _ready(job, _HAVE[0])


def _ready(job: Job, have: Mapping[str, Run]) -> Ready:
    """A run read and made ready to write, or the problems for which it is refused."""
    try:
        rows, written = read(job.source)
        at = job.at or written
        name = job.name or ", ".join(sorted({name for block in rows["head"] for name in block.values("run_id")})[:4])
        return append.prepared(rows, store=job.store, name=name, at=at, have=have)
    except UnusableInput as error:
        return error.problems


def _add(job: Job, ready: Ready, have: Mapping[str, Run]) -> Addition:
    try:
        if isinstance(ready, tuple):
            return Addition(source=job.source, problems=ready)
        return Addition(source=job.source, added=append.written(ready, have=have))
    except UnusableInput as error:
        return Addition(source=job.source, problems=error.problems)
