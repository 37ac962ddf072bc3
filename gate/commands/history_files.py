"""Where the result rows of a run lie, and how the rows of many runs get into the history."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import msgspec

from gate import store
from gate.commands import judge_files
from gate.commands.timed_run import BASE_ROWS, HEAD_ROWS
from gate.history import append, decoding
from gate.history.block import Block
from gate.model.history import Run
from gate.model.problem import Problem, UnusableInput

# From this many runs on, starting processes costs less than it saves.
MANY = 16


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


def add_all(jobs: Sequence[Job]) -> Iterator[Addition]:
    """Adds each run or none of its rows, in the order given; runs that the store has already are left."""
    have = append.Known(jobs[0].store)
    if len(jobs) < MANY or (os.cpu_count() or 1) < 2:
        new: dict[str, Run] = {}
        for job in jobs:
            outcome = _add(job, ChainMap(new, cast(Any, have)))
            if outcome.added is not None:
                new[outcome.added.run.key] = outcome.added.run
            yield outcome
        return
    # Loaded before the processes start, so that each need not load it; what is known goes to each of them once.
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, get_context("fork"), initializer=_HAVE.append, initargs=(have,)) as pool:
        yield from pool.map(_add_unknown, jobs, chunksize=4)


# The runs that the store holds, in a process that adds some of many.
_HAVE: list[Mapping[str, Run]] = []


def _add_unknown(job: Job) -> Addition:
    return _add(job, _HAVE[0])


def _add(job: Job, have: Mapping[str, Run]) -> Addition:
    try:
        rows, written = read(job.source)
        at = job.at or written
        name = job.name or ", ".join(sorted({name for block in rows["head"] for name in block.values("run_id")})[:4])
        return Addition(source=job.source, added=append.add(rows, store=job.store, name=name, at=at, have=have))
    except UnusableInput as error:
        return Addition(source=job.source, problems=error.problems)
