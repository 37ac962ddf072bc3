"""How a run gets into the store, and how many small files become few: rows are added, never changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from gate.history import files, table
from gate.history.block import Rows, blocks
from gate.model.history import Run
from gate.model.problem import Problem, UnusableInput

# So many digits of its key name the file of a run.
KEY_DIGITS = 16
_OF_ONE_RUN = re.compile(rf"\d{{8}}T\d{{6}}-([0-9a-f]{{{KEY_DIGITS}}}){re.escape(files.SUFFIX)}")


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A run made ready to add: its file's place and bytes, or neither where the store has these rows already."""

    run: Run
    file: Path | None = None
    content: bytes = b""


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """What came of adding one run: the file, or None where the store has these rows already."""

    run: Run
    file: Path | None


class Known(Mapping[str, Run]):
    """The runs that a store holds, by key; none where there is no store yet.

    The file of a single run is named by its key, and opened only where that key is asked for.
    """

    def __init__(self, store: Path) -> None:
        self._runs: dict[str, Run] = {}
        self._named: dict[str, list[Path]] = {}
        for path in files.paths(store):
            if (name := _OF_ONE_RUN.fullmatch(path.name)) is not None:
                self._named.setdefault(name[1], []).append(path)
            else:
                self._open([path])

    def _open(self, paths: Iterable[Path]) -> None:
        for path in paths:
            found = files.read_footer(path)
            if not isinstance(found, Problem):
                self._runs |= {run.key: run for run in found.runs}

    def __getitem__(self, key: str) -> Run:
        self._open(self._named.pop(key[:KEY_DIGITS], ()))
        return self._runs[key]

    def __iter__(self) -> Iterator[str]:
        self._open(path for paths in self._named.values() for path in paths)
        self._named.clear()
        return iter(self._runs)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def known(store: Path) -> dict[str, Run]:
    """The runs that the store holds; none where there is no store yet."""
    return dict(Known(store))


def add(sides: Mapping[str, Rows], *, store: Path, name: str, at: datetime, have: Mapping[str, Run]) -> Added:
    """Writes the rows of one run as one file for its architecture and month; rows of a run in `have` are left.

    `sides` holds the rows of head and base, `at` when they were measured (UTC). Raises UnusableInput where the file
    cannot be written.
    """
    return written(prepared(sides, store=store, name=name, at=at, have=have), have=have)


def written(ready: Prepared, *, have: Mapping[str, Run]) -> Added:
    """Writes the file of a run, unless it is in `have` by now. Raises UnusableInput where it cannot be written."""
    run, path = have.get(ready.run.key, ready.run), ready.file
    if path is None or run is not ready.run:
        return Added(run=run, file=None)

    def fill(name: str) -> None:
        Path(name).write_bytes(ready.content)

    files.whole(path, fill)
    return Added(run=run, file=path)


def prepared(sides: Mapping[str, Rows], *, store: Path, name: str, at: datetime, have: Mapping[str, Run]) -> Prepared:
    """All of `add` but the writing; nothing on disk changes."""
    parts = {side: list(blocks(rows)) for side, rows in sides.items()}
    key = table.key_of(parts)
    if key in have:
        return Prepared(run=have[key])
    run = Run(key=key, name=name, at=at, rows=sum(block.n for found in parts.values() for block in found))
    archs = sorted({arch for found in parts.values() for block in found for arch in block.values("arch") if arch})
    folder = store / table.folder_of("+".join(archs), f"{at:%Y-%m}")
    path = folder / f"{at:%Y%m%dT%H%M%S}-{key[:KEY_DIGITS]}{files.SUFFIX}"
    made = table.with_runs(table.columns(parts, key=key, at=at), [run])
    return Prepared(run=run, file=path, content=files.content(made))


def check(stored: Sequence[files.StoredFile]) -> list[Problem]:
    """A problem for each file that is not as it was written, or whose rows are not those that its runs are named by.

    A run's key is the hash of its rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: dict[Path, Problem] = {}
    for file in stored:
        if (problem := files.altered(file.path)) is not None:
            found[file.path] = problem
            continue
        try:
            rows = table.runs_in(pq.read_table(file.path, schema=table.schema(), partitioning=None))
            keys = {table.key_of(sides) for sides in rows.values()}
        except (pa.ArrowException, OSError, ValueError, msgspec.ValidationError) as error:
            found[file.path] = files.damaged(file.path, error)
            continue
        if keys != {run.key for run in file.runs} or keys != set(rows):
            found[file.path] = files.damaged(file.path, ValueError("its rows are not those that were added"))
    return list(found.values())


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """One folder made into one file."""

    file: Path
    runs: int
    rows: int
    files: int


def compact(store: Path, *, least: int) -> list[Compacted]:
    """Makes one sorted file of the files of each folder that has at least `least`; the rows stay the same.

    The new file is there before the old ones go, and readers know which of them to read if it breaks off between.
    Raises UnusableInput where a file cannot be read or written.
    """
    found = files.listing(store)
    files.remove(found.superseded)
    by_folder: dict[Path, list[files.StoredFile]] = {}
    for file in found.files:
        by_folder.setdefault(file.path.parent, []).append(file)
    return [_compact(folder, group) for folder, group in by_folder.items() if len(group) >= max(least, 2)]


def _compact(folder: Path, group: Sequence[files.StoredFile]) -> Compacted:
    from gate.history.query import Reader

    runs = sorted((run for file in group for run in file.runs), key=lambda run: (run.at, run.key))
    name = f"{runs[-1].at:%Y%m%dT%H%M%S}-{runs[-1].key[:8]}-{len(runs)}-runs{files.SUFFIX}"
    schema = table.with_runs(table.schema().empty_table(), runs).schema
    with Reader(group) as reader:
        stranger = sorted({name for name, *_ in reader.rows("DESCRIBE history")} - set(schema.names))
        if stranger:
            what = f"columns that this version does not know, such as {stranger[0]}, would be lost"
            raise UnusableInput(Problem(what=what, file=str(folder), fix="compact it with the gate that wrote it"))
        # Sorted in one go, so that the rows of a series lie together; the sort spills to disk where memory is short.
        sql = f"SELECT {', '.join(schema.names)} FROM history ORDER BY {', '.join(table.ORDER)}"
        files.write(folder / name, reader.stream(sql), schema=schema)
    files.remove(file.path for file in group)
    return Compacted(file=folder / name, runs=len(runs), rows=sum(run.rows for run in runs), files=len(group))
