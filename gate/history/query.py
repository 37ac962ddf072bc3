"""Knows how the store is asked: DuckDB over its Parquet files, in this process, with no server and no other file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from gate.history import files, table
from gate.history.files import Listing, StoredFile
from gate.model.history import CONTRACT, Overview, Wanted
from gate.model.problem import Problem, UnusableInput

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
# What a query may hold in memory; beyond it sorts and groups go to a temporary folder.
MEMORY = "3GB"
_FETCHING = ("autoinstall_known_extensions", "autoload_known_extensions")
# A time of a checked output, as `usable` of stored baselines has it.
USABLE = (
    "benchmark_status = 'ok' AND correct AND timing_method IS NOT NULL AND timing_method <> 'codegen' "
    "AND isfinite(median_us) AND median_us > 0"
)
IDENTITY = ("op_type", "shape_id", "provider", *CONTRACT)


class Reader:
    """One connection over some files of the store, as the view `history`, which has every column of this version.

    Every query raises UnusableInput where a file turns out to be damaged, and names it.
    """

    def __init__(self, stored: Sequence[StoredFile]) -> None:
        import duckdb

        self._stored = tuple(stored)
        self._spill = tempfile.TemporaryDirectory(prefix="gate-history-")
        # Nothing is fetched: what a query needs is in the package, and else it fails.
        config: dict[str, Any] = {
            **dict.fromkeys(_FETCHING, "false"),
            "memory_limit": MEMORY,
            "temp_directory": self._spill.name,
        }
        self._db = duckdb.connect(":memory:", config=config)
        # Without this the order of rows is kept, which costs memory, and every query here orders for itself.
        self._db.execute("SET preserve_insertion_order = false")
        self._db.register("no_rows", table.schema().empty_table())
        paths = ", ".join(_literal(str(file.path)) for file in stored)
        # The folders' names are for people; a column that they overrode would hold what they say.
        of_files = f"SELECT * FROM read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"
        # The empty table comes first, so that the columns have its order whichever of them the files hold.
        view = f"SELECT * FROM no_rows UNION ALL BY NAME {of_files}" if stored else "SELECT * FROM no_rows"
        with self._naming_files():
            self._db.execute(f"CREATE VIEW history AS {view}")

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()
        self._spill.cleanup()

    @contextmanager
    def _naming_files(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except (duckdb.Error, UnicodeDecodeError) as error:
            bad = {**_refused(self._stored), **files.unreadable(self._stored)} if len(self._stored) > 1 else {}
            what = f"damaged: {_first_line(error)}" if self._stored else _first_line(error)
            last = str(self._stored[0].path) if len(self._stored) == 1 else ""
            raise UnusableInput(*(bad.values() or [Problem(what=what, file=last)])) from None

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self._naming_files():
            found: list[tuple[Any, ...]] = self._db.execute(sql, list(parameters)).fetchall()
        return found

    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[pa.RecordBatch]:
        """The columns of a query, some row groups at a time."""
        with self._naming_files():
            yield from self._db.sql(sql, params=list(parameters)).to_arrow_reader(files.GROUP_ROWS)

    def arrow(self, sql: str, parameters: Sequence[Any] = ()) -> pa.Table:
        """The columns of a query."""
        with self._naming_files():
            return self._db.sql(sql, params=list(parameters)).to_arrow_reader(files.GROUP_ROWS).read_all()

    def keep(self, name: str, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Keeps the rows of a query as a table, for further queries that would read the files again."""
        with self._naming_files():
            self._db.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}", list(parameters))

    def register(self, name: str, columns: pa.Table) -> None:
        """Makes columns at hand a table of the queries."""
        self._db.register(name, columns)

    def copy(self, sql: str, parameters: Sequence[Any], *, path: str, options: str) -> None:
        """Writes the rows of a query to a file; `options` are those of DuckDB's COPY."""
        with self._naming_files():
            self._db.execute(f"COPY ({sql}) TO {_literal(path)} ({options})", list(parameters))


def _refused(stored: Sequence[StoredFile]) -> dict[Path, Problem]:
    """The files that DuckDB cannot read to their end, each asked by itself."""
    found = {}
    for file in stored:
        try:
            with Reader((file,)) as reader:
                for _ in reader.stream("SELECT * FROM history"):
                    pass
        except UnusableInput as error:
            found[file.path] = error.problems[0]
    return found


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def _literal(text: str) -> str:
    """A string as SQL has it: the names of files are no parameters of a view or a COPY."""
    return "'" + text.replace("'", "''") + "'"


def asked(found: Listing, ask: Callable[[Reader, Listing], T]) -> tuple[T, Listing]:
    """The answer of `ask`, and the files that it rests on: one that proves damaged is left out and named.

    Raises UnusableInput where the history cannot be read for another reason.
    """
    try:
        with Reader(found.files) as reader:
            return ask(reader, found), found
    except UnusableInput as error:
        bad = {problem.file for problem in error.problems}
        left = tuple(file for file in found.files if str(file.path) not in bad)
        if len(left) == len(found.files):
            raise
        problems = (*found.problems, *error.problems)
    rest = Listing(files=left, problems=problems, superseded=found.superseded)
    with Reader(left) as reader:
        return ask(reader, rest), rest


def where(wanted: Wanted) -> tuple[str, list[Any]]:
    """The condition for the rows that are wanted, and its parameters; nothing from outside stands in the text."""
    parts, values = ["true"], list[Any]()
    named = [
        ("op_type", wanted.ops),
        ("shape_id", wanted.shapes),
        ("provider", wanted.providers),
        ("gpu", wanted.gpus),
        ("arch", wanted.archs),
    ]
    for column, allowed in named:
        if allowed:
            # One of them is compared directly, which lets whole row groups be passed over.
            parts.append(f"{column} IN ({', '.join('?' * len(allowed))})")
            values += allowed
    if wanted.side is not None:
        parts.append("side = ?")
        values.append(wanted.side)
    return " AND ".join(parts), values


def overview(reader: Reader, found: Listing) -> Overview:
    """The store in numbers."""
    ((rows, usable, first, last, series),) = reader.rows(
        f"SELECT count(*), count(*) FILTER (WHERE {USABLE}), min(measured_at), max(measured_at), "
        f"count(DISTINCT ({', '.join(IDENTITY)})) FILTER (WHERE {USABLE} AND side = 'head') FROM history"
    )
    by_op = reader.rows("SELECT coalesce(op_type, 'unknown'), count(*) FROM history GROUP BY 1 ORDER BY 1")
    ways = ", ".join(f"coalesce({name}, 'unknown')" for name in CONTRACT)
    by_contract = reader.rows(
        f"SELECT concat_ws(', ', {ways}), count(*) FROM history WHERE {USABLE} GROUP BY 1 ORDER BY 1"
    )
    return Overview(
        runs=len(found.runs),
        rows=rows,
        usable=usable,
        series=series,
        files=len(found.files),
        bytes=sum(file.size_bytes for file in found.files),
        first=_utc(first),
        last=_utc(last),
        by_op=dict(by_op),
        by_contract=dict(by_contract),
    )


def _utc(value: datetime | None) -> datetime | None:
    return None if value is None else value.replace(tzinfo=UTC)


def export(reader: Reader, wanted: Wanted, *, path: Path, kind: str) -> int:
    """Writes the wanted rows, oldest run first, as csv or jsonl; returns how many. Raises UnusableInput."""
    condition, values = where(wanted)
    options = {"csv": "FORMAT csv, HEADER true", "jsonl": "FORMAT json, ARRAY false"}[kind]
    order = "history.measured_at, run_key, op_type, shape_id, provider, side"
    moment = "strftime(measured_at, '%Y-%m-%dT%H:%M:%SZ') AS measured_at"
    sql = f"SELECT * REPLACE ({moment}) FROM history WHERE {condition} ORDER BY {order}"
    files.whole(path, lambda name: reader.copy(sql, values, path=name, options=options))
    ((count,),) = reader.rows(f"SELECT count(*) FROM history WHERE {condition}", values)
    return int(count)
