"""Knows how rows become series: the usable times of one shape and provider under one contract, run after run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gate.history.query import IDENTITY, USABLE, Reader, where
from gate.model.history import Points, Run, Series, Wanted

_CHECKED = ("benchmark_status", "correct")
_ID = f"hash({', '.join(IDENTITY)})"


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Every series that was asked for: log times, sorted by series and then by run.

    Series i has the points `starts[i]` to `starts[i + 1]`; `run` numbers into `runs`, which are in the order of time.
    `doubled[i]` counts the runs that measured series i twice, which are left out.
    """

    runs: tuple[Run, ...]
    commits: dict[str, str]
    series: tuple[Series, ...]
    starts: NDArray[np.int64]
    run: NDArray[np.int64]
    logs: NDArray[np.float64]
    doubled: tuple[int, ...]

    def part(self, index: int, last: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The run numbers and log times of one series, the `last` ones only if given."""
        start, end = int(self.starts[index]), int(self.starts[index + 1])
        start = start if last is None else max(start, end - last)
        return self.run[start:end], self.logs[start:end]

    def points_of(self, wanted: Sequence[Series], *, last: int | None = None) -> Iterator[Points]:
        """Some of the series as plain values, microseconds."""
        place = {series: index for index, series in enumerate(self.series)}
        for series in wanted:
            numbers, logs = self.part(place[series], last)
            runs = [self.runs[number] for number in numbers.tolist()]
            yield Points(
                series=series,
                times_us=tuple(np.exp(logs).tolist()),
                at=tuple(run.at for run in runs),
                runs=tuple(run.name for run in runs),
                commits=tuple(self.commits.get(run.key, "") for run in runs),
            )


def timeline(reader: Reader, wanted: Wanted, *, runs: Sequence[Run]) -> Timeline:
    """The series of the rows that are wanted; failed, unchecked and untimed rows are no points."""
    import pyarrow as pa

    ordered = tuple(sorted(runs, key=lambda run: (run.at.astimezone(UTC), run.key)))
    numbers = pa.table({"key": [run.key for run in ordered], "number": np.arange(len(ordered), dtype=np.int64)})
    reader.register("run_numbers", numbers)
    condition, values = where(wanted)
    rows = "history"
    if wanted.shapes:
        # So few rows are read once; all rows would not fit.
        names = ", ".join((*IDENTITY, "dtype", "args", "run_key", "candidate_commit", "median_us", *_CHECKED))
        reader.keep("picked", f"SELECT {names} FROM history WHERE {condition}", values)
        rows, condition, values = "picked", "true", []
    found = reader.arrow(
        f"SELECT {_ID} AS id, number, ln(median_us) AS log FROM {rows} JOIN run_numbers ON run_key = key "
        f"WHERE {USABLE} AND {condition} ORDER BY id, number",
        values,
    )
    columns = [found.column(name).to_numpy() for name in ("id", "number", "log")]
    ids, number, logs = columns[0], columns[1], columns[2]
    once = _measured_once(ids, number)
    starts, present = _bounds(ids[once])
    known = _series(reader, rows, condition=condition, values=values)
    return Timeline(
        runs=ordered,
        commits=_commits(reader, rows, condition=condition, values=values),
        series=tuple(known[one] for one in present),
        starts=starts,
        run=number[once],
        logs=logs[once],
        doubled=_doubled(ids[~once], number[~once], present=present),
    )


def _measured_once(ids: NDArray[Any], number: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Rows whose series has no second row in the same run: which of two times is meant cannot be known."""
    if not len(ids):
        return np.zeros(0, dtype=bool)
    as_before = np.concatenate(([False], (ids[1:] == ids[:-1]) & (number[1:] == number[:-1])))
    as_after = np.concatenate((as_before[1:], [False]))
    alone: NDArray[np.bool_] = ~(as_before | as_after)
    return alone


def _bounds(ids: NDArray[Any]) -> tuple[NDArray[np.int64], list[int]]:
    if not len(ids):
        return np.zeros(1, dtype=np.int64), []
    edges = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    starts = np.concatenate(([0], edges, [len(ids)])).astype(np.int64)
    return starts, [int(one) for one in ids[starts[:-1]]]


def _doubled(ids: NDArray[Any], number: NDArray[np.int64], *, present: Sequence[int]) -> tuple[int, ...]:
    runs: dict[int, set[int]] = {}
    for one, at in zip(ids.tolist(), number.tolist(), strict=True):
        runs.setdefault(one, set()).add(at)
    return tuple(len(runs.get(one, ())) for one in present)


def _series(reader: Reader, source: str, *, condition: str, values: Sequence[Any]) -> dict[int, Series]:
    names = ", ".join(f"any_value(coalesce({name}, ''))" for name in (*IDENTITY, "dtype", "args"))
    rows = reader.rows(f"SELECT {_ID} AS id, {names} FROM {source} WHERE {USABLE} AND {condition} GROUP BY id", values)
    fields = (*IDENTITY, "dtype", "args")
    return {row[0]: Series(**dict(zip(fields, row[1:], strict=True))) for row in rows}


def _commits(reader: Reader, source: str, *, condition: str, values: Sequence[Any]) -> dict[str, str]:
    """The candidate's commit of each run."""
    sql = f"SELECT run_key, max(candidate_commit) FROM {source} WHERE {condition} GROUP BY run_key"
    return {key: commit or "" for key, commit in reader.rows(sql, values)}
