"""Knows where the history lies and how its Parquet files are read and written: whole or not at all, never changed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gate.history.table import CHOSEN_BY, META, SCHEMA, Meta
from gate.model.history import Run
from gate.model.problem import Problem, UnusableInput

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SUFFIX = ".parquet"
# Beside each file, in the form of sha256sum, so that `sha256sum -c` reads it too.
SUM = ".sha256"
# Rows of a group: so few that one series is found without reading much else, so many that columns stay small.
GROUP_ROWS = 1 << 16
_FIX = "restore it from version control, or remove it and add its run again"


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the store and the runs in it."""

    path: Path
    runs: tuple[Run, ...]
    rows: int
    size_bytes: int


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The files to read, a problem for each that cannot be, and files whose runs a larger file holds as well."""

    files: tuple[StoredFile, ...]
    problems: tuple[Problem, ...] = ()
    superseded: tuple[Path, ...] = ()

    @property
    def runs(self) -> dict[str, Run]:
        """The runs of all files by key."""
        return {run.key: run for file in self.files for run in file.runs}


def need() -> None:
    """Raises UnusableInput where the packages of the history are not installed."""
    # Found and not imported: an import takes longer than to add a run, and no verb needs all of them.
    for name in ("duckdb", "pyarrow", "ruptures"):
        if find_spec(name) is None:
            fix = "pip install 'flydsl-gate[history]'"
            raise UnusableInput(Problem(what=f"the history needs {name}", file="", fix=fix))


def listing(store: Path) -> Listing:
    """Every file of the store, footers read. Raises UnusableInput where there is no such folder."""
    if not store.is_dir():
        fix = "'gate history add' makes it"
        raise UnusableInput(Problem(what="no history in this folder", file=str(store), fix=fix))
    found: list[StoredFile] = []
    problems: list[Problem] = []
    for path in paths(store):
        one = read_footer(path)
        if isinstance(one, Problem):
            problems.append(one)
        else:
            found.append(one)
    # A compaction that broke off leaves the small files beside the large one that holds their runs.
    holders: dict[str, StoredFile] = {}
    for file in sorted(found, key=lambda file: (-len(file.runs), str(file.path))):
        for run in file.runs:
            holders.setdefault(run.key, file)
    kept = tuple(file for file in found if all(holders[run.key] is file for run in file.runs))
    covered = {run.key for file in kept for run in file.runs}
    left = tuple(file.path for file in found if file not in kept)
    problems += [
        Problem(what="its runs are partly in other files too", file=str(file.path), fix=_FIX)
        for file in found
        if file not in kept and not all(run.key in covered for run in file.runs)
    ]
    return Listing(files=kept, problems=tuple(problems), superseded=left)


def paths(store: Path) -> list[Path]:
    """Where the files of the store lie, in order."""
    return sorted(store.glob(f"*/*/[!.]*{SUFFIX}"))


def read_footer(path: Path) -> StoredFile | Problem:
    """What a file says of itself, or what is wrong with it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if not path.is_file():
            return Problem(what="not a regular file, so it is left out", file=str(path), fix=_FIX)
        footer = pq.read_metadata(path)
        meta = msgspec.json.decode((footer.metadata or {}).get(META, b"{}"), type=Meta)
        size = path.stat().st_size
    except (pa.ArrowException, OSError, ValueError, msgspec.DecodeError) as error:
        what = f"not a file of the history, so it is left out: {_first_line(error)}"
        return Problem(what=what, file=str(path), fix=_FIX)
    if meta.schema != SCHEMA:
        fix = "read it with the version of the gate that wrote it"
        return Problem(what=f"of version {meta.schema}, this gate reads {SCHEMA}", file=str(path), fix=fix)
    if footer.num_rows != sum(run.rows for run in meta.runs):
        return Problem(what="it does not hold the rows that it says, so it is left out", file=str(path), fix=_FIX)
    return StoredFile(path=path, runs=meta.runs, rows=footer.num_rows, size_bytes=size)


def sum_of(path: Path) -> Path:
    """Where the checksum of a file stands."""
    return path.with_name(path.name + SUM)


def _sha256(path: Path | str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def altered(path: Path) -> Problem | None:
    """What is wrong with a file whose bytes are not those that were written, or whose checksum is gone."""
    try:
        said = sum_of(path).read_text(encoding="ascii").partition(" ")[0]
        found = _sha256(path)
    except (OSError, ValueError) as error:
        return Problem(what=f"its checksum cannot be read: {_first_line(error)}", file=str(path), fix=_FIX)
    return None if said == found else damaged(path, ValueError("its bytes are not those that were written"))


def unreadable(files: Sequence[StoredFile]) -> dict[Path, Problem]:
    """The files whose bytes are not as they were written, or whose columns cannot be read; each is read to its end."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = {}
    for file in files:
        if (problem := altered(file.path)) is not None:
            found[file.path] = problem
            continue
        try:
            for _ in pq.ParquetFile(file.path, page_checksum_verification=True).iter_batches():
                pass
        except (pa.ArrowException, OSError, ValueError) as error:
            found[file.path] = damaged(file.path, error)
    return found


def damaged(path: Path, error: Exception) -> Problem:
    """What is said of a file that is not as it was written."""
    return Problem(what=f"damaged: {_first_line(error)}", file=str(path), fix=_FIX)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def write(path: Path, batches: Iterable[pa.RecordBatch], *, schema: pa.Schema) -> None:
    """Writes one file whole, a row group for each batch or so. Raises UnusableInput where it cannot."""
    whole(path, lambda name: _fill(name, batches, schema))


def content(table: pa.Table) -> bytes:
    """The bytes of the file that `write` would write of a table."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    _fill(sink, table.to_batches(), table.schema)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _fill(where: Any, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    import pyarrow as pa

    with _writer(where, schema) as writer:
        for group in _grouped(batches):
            writer.write_table(pa.Table.from_batches(group).cast(schema), row_group_size=GROUP_ROWS)
        writer.add_key_value_metadata(schema.metadata)


def _writer(where: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Times are hardly ever equal and get no dictionary; statistics are of columns that rows are chosen by.

    A column that is a dictionary in memory, as one value for all rows is, is a plain one in the file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.ParquetWriter(
        where,
        schema,
        compression={one.name: "none" if pa.types.is_dictionary(one.type) else "zstd" for one in schema},
        use_dictionary=[one.name for one in schema if not pa.types.is_floating(one.type)],
        write_statistics=[one.name for one in schema if one.name in CHOSEN_BY],
        write_page_checksum=True,
        store_schema=False,
    )


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches together until they make a row group; a query may give them as small as it likes."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if sum(part.num_rows for part in group) >= GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group


def whole(path: Path, fill: Callable[[str], None]) -> None:
    """Lets `fill` write a hidden file beside `path` and renames it. Raises UnusableInput where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        try:
            fill(name)
            with Path(name).open("rb") as file:
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            # The sum is there first: a file without one is never whole.
            if path.suffix == SUFFIX:
                sum_of(path).write_text(f"{_sha256(name)}  {path.name}\n", encoding="ascii")
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            if not path.exists():
                sum_of(path).unlink(missing_ok=True)
            raise
    except OSError as error:
        what = f"cannot write: {error.strerror or _first_line(error)}"
        fix = "choose a folder that can be written"
        raise UnusableInput(Problem(what=what, file=str(path), fix=fix)) from None


def remove(paths: Iterable[Path]) -> None:
    """Removes files whose rows another file holds."""
    for path in paths:
        path.unlink(missing_ok=True)
        sum_of(path).unlink(missing_ok=True)
