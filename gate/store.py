"""Every data file in and out: JSONL, CSV, YAML and TOML, line by line, strict, and written atomically."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gate.model.codegen import CodegenRecord
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.outcome import Measured, MeasuredResults, Outcome, Results
from gate.model.problem import Problem, UnusableInput
from gate.model.shape import Shape, expected_id
from gate.schemas.strict import NotStrict, yaml_value

T = TypeVar("T")
CHUNK_BYTES = 1 << 23
# A policy or a matrix has some kilobytes; results and traces have up to some hundred megabytes.
DOCUMENT_BYTES = 1 << 26
LARGEST_BYTES = 1 << 32
LEDGER_FILE = "shape_ledger.jsonl"
MATRIX_FILE = "baseline_matrix.yaml"
RESULTS_FILE = "benchmark_results.jsonl"
CODEGEN_FILE = "codegen_records.jsonl"


_IO_FIX = {"read": "check the path and its permissions", "write": "choose a folder that can be written"}


def _io_fault(doing: str, path: Path, error: OSError) -> UnusableInput:
    return UnusableInput(Problem(what=f"cannot {doing}: {error.strerror}", file=str(path), fix=_IO_FIX[doing]))


def regular(path: Path, *, most: int | None = None) -> Path:
    """The path, if a regular file of at most `most` bytes lies there; a pipe or a device would never end.

    Raises UnusableInput with one line for anything else, OSError if there is nothing.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, a socket or a device"
        raise UnusableInput(Problem(what=f"not a file but {kind}", file=str(path), fix="give a regular file"))
    if most is not None and found.st_size > most:
        what = f"{found.st_size >> 20} MiB are more than the {most >> 20} MiB that are read of such a file"
        raise UnusableInput(Problem(what=what, file=str(path), fix="give the right file, or split it"))
    return path


def read_document(path: Path) -> bytes:
    """As `read_bytes`, of a document that people write: at most 64 MiB."""
    return read_bytes(path, most=DOCUMENT_BYTES)


def read_bytes(path: Path, *, most: int = LARGEST_BYTES) -> bytes:
    """The file's bytes. Raises UnusableInput with one line if it cannot be read or is larger than `most`."""
    try:
        return regular(path, most=most).read_bytes()
    except OSError as error:
        raise _io_fault("read", path, error) from None


def read_start(path: Path, size: int = 1 << 16) -> bytes:
    """The first `size` bytes of a file. Raises UnusableInput if it cannot be read."""
    try:
        with regular(path).open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise _io_fault("read", path, error) from None


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of each non-blank line."""
    for number, raw in enumerate(read_bytes(path).split(b"\n"), start=1):
        if raw.strip():
            yield number, raw


def stream_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """As `lines`, holding one line at a time. Raises UnusableInput if the file cannot be read."""
    for number, raw in enumerate(byte_lines(path), start=1):
        if not raw.isspace():
            yield number, raw


def byte_lines(path: Path) -> Iterator[bytes]:
    """Each line as it is, blank ones and line ends included. Raises UnusableInput if the file cannot be read."""
    try:
        with regular(path).open("rb") as file:
            yield from file
    except OSError as error:
        raise _io_fault("read", path, error) from None


def decode_lines(path: Path, record: type[T]) -> tuple[list[tuple[int, T]], list[Problem]]:
    """Every line of a JSONL file as a record with its line number, and a problem for each refused line."""
    decoder = msgspec.json.Decoder(record)
    good: list[tuple[int, T]] = []
    bad: list[Problem] = []
    for number, raw in lines(path):
        try:
            good.append((number, decoder.decode(raw)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            bad.append(_refused(path, number, raw, error))
    return good, bad


def decode_bulk(path: Path, record: type[T]) -> tuple[list[T], list[Problem]]:
    """As `decode_lines` without line numbers: whole chunks at a time, line by line only where a chunk has a fault."""
    return decode_pieces(path, _chunks(path), record)


def decode_pieces(path: Path, pieces: Iterable[bytes], record: type[T]) -> tuple[list[T], list[Problem]]:
    """As `decode_bulk`, of consecutive pieces of whole lines of the file."""
    decoder = msgspec.json.Decoder(record)
    good: list[T] = []
    bad: list[Problem] = []
    line = 0
    for chunk in pieces:
        try:
            good += decoder.decode_lines(chunk)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            _decode_each(path, chunk, line, decoder, good, bad)
        line += chunk.count(b"\n")
    return good, bad


def _decode_each(
    path: Path, chunk: bytes, before: int, decoder: msgspec.json.Decoder[T], good: list[T], bad: list[Problem]
) -> None:
    for number, raw in enumerate(chunk.split(b"\n"), start=before + 1):
        if raw.strip():
            try:
                good.append(decoder.decode(raw))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                bad.append(_refused(path, number, raw, error))


def _chunks(path: Path) -> Iterator[bytes]:
    """The file in pieces of whole lines. Raises UnusableInput as `read_bytes` does."""
    try:
        with regular(path).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk + file.readline()
    except OSError as error:
        raise _io_fault("read", path, error) from None


def _refused(path: Path, number: int, raw: bytes, error: Exception) -> Problem:
    if isinstance(error, msgspec.ValidationError):
        what, fix = f"refused: {error}", "see the contract's schema in gate/schemas"
    elif isinstance(error, RecursionError):
        what, fix = "nested too deeply", "no contract has such a row"
    else:
        what, fix = f"not valid JSON: {error}", "the line is cut off or not strict JSON (no NaN, no comments)"
    identity = _identity(raw)
    return Problem(
        what=what,
        file=str(path),
        line=number,
        fix=fix,
        shape_id=identity.get("shape_id"),
        provider=identity.get("provider"),
    )


def _identity(raw: bytes) -> dict[str, str]:
    """Whose row a refused line was, as far as it can be read (NaN is read here only to name the row)."""
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(row, dict):
        return {}
    return {key: row[key] for key in ("shape_id", "provider") if isinstance(row.get(key), str)}


def read_ledger(path: Path) -> Ledger:
    """The ledger in `path`; rows with a wrong id or a repeated id are refused, each with its line."""
    rows, problems = decode_lines(path, Shape)
    shapes: list[Shape] = []
    seen: dict[str, int] = {}
    for number, shape in rows:
        want = expected_id(shape)
        if shape.shape_id != want:
            problems.append(
                _ledger_problem(path, number, shape, f"shape_id {shape.shape_id} is not {want}, the id of its fields")
            )
        elif shape.shape_id in seen:
            problems.append(
                _ledger_problem(path, number, shape, f"{shape.shape_id} is already on line {seen[shape.shape_id]}")
            )
        else:
            seen[shape.shape_id] = number
            shapes.append(shape)
    return Ledger(shapes=tuple(shapes), problems=tuple(sorted(problems, key=lambda p: p.line or 0)))


def _ledger_problem(path: Path, number: int, shape: Shape, what: str) -> Problem:
    return Problem(
        what=what,
        file=str(path),
        line=number,
        fix="re-import the ledger instead of editing it",
        shape_id=shape.shape_id,
    )


def read_results(path: Path) -> Results:
    """All result rows in `path`, duplicates included; each refused line is a problem."""
    rows, problems = decode_lines(path, Outcome)
    return Results(outcomes=tuple(row for _, row in rows), problems=tuple(problems))


def read_codegen(files: Iterable[Path]) -> dict[str, CodegenRecord]:
    """The codegen records of several files by compile key. Raises UnusableInput for a refused or repeated record."""
    found: dict[str, CodegenRecord] = {}
    problems: list[Problem] = []
    for path in files:
        rows, refused = decode_lines(path, CodegenRecord)
        problems += refused
        for number, row in rows:
            if row.compile_key in found:
                what = f"{row.compile_key} is recorded twice"
                problems.append(Problem(what=what, file=str(path), line=number, fix="record the baseline again"))
            found[row.compile_key] = row
    if problems:
        raise UnusableInput(*problems)
    return found


# Strings that a run repeats in every row: one object each keeps a million rows small.
REPEATED = (
    "run_id",
    "gpu",
    "arch",
    "rocm_version",
    "driver_version",
    "torch_version",
    "triton_version",
    "flydsl_version",
    "llvm_version",
    "kernels_sha",
    "candidate_commit",
    "baseline_commit",
    "provider_detail",
    "session_id",
)


def share(rows: Sequence[Measured], name: str) -> None:
    """Makes equal strings of one field the same object."""
    kept: dict[str | None, str | None] = {}
    keep = kept.setdefault
    for row, value in zip(rows, map(attrgetter(name), rows), strict=True):
        setattr(row, name, keep(value, value))


def read_measured(path: Path) -> MeasuredResults:
    """As `read_results`, for judging: only the fields that a judgement reads, checked against the same contract."""
    rows, problems = decode_bulk(path, Measured)
    for name in REPEATED:
        share(rows, name)
    return MeasuredResults(outcomes=tuple(rows), problems=tuple(problems))


def read_yaml(path: Path) -> Any:
    """A YAML document, plain data only: UTF-8, no aliases, no key twice. Raises UnusableInput with the line."""
    try:
        return yaml_value(read_document(path))
    except NotStrict as error:
        raise UnusableInput(Problem(what=str(error), file=str(path), line=error.line, fix="correct the line")) from None


def read_matrix(path: Path) -> Matrix:
    """The baseline matrix in `path`. Raises UnusableInput if it is not one."""
    try:
        return msgspec.convert(read_yaml(path), Matrix)
    except msgspec.ValidationError as error:
        raise UnusableInput(
            Problem(
                what=f"not a baseline matrix: {error}",
                file=str(path),
                fix="see gate/schemas/baseline_matrix.schema.json",
            )
        ) from None


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML document. Raises UnusableInput with the fault."""
    try:
        return tomllib.loads(read_document(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UnusableInput(Problem(what=f"not valid TOML: {error}", file=str(path), fix="correct the line")) from None


def encode(record: Any) -> bytes:
    """One record as JSON: keys in a fixed order, so that equal records give equal bytes."""
    return msgspec.json.encode(record, order="sorted")


def write_text(path: Path, text: str) -> None:
    """Writes the whole file or leaves the old one: a temporary file beside it, synced, then renamed."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """As `write_text`. Raises UnusableInput if the folder cannot be written."""
    write_chunks(path, (data,))


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """As `write_bytes`, holding one chunk at a time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(chunks)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink()
            raise
    except OSError as error:
        raise _io_fault("write", path, error) from None


def remove_folder(path: Path) -> None:
    """Removes a folder of our own making with all that is in it, if it is there."""
    shutil.rmtree(path, ignore_errors=True)


def write_jsonl(path: Path, records: Iterable[Any]) -> None:
    """Records as JSON lines, atomically."""
    write_chunks(path, (encode(record) + b"\n" for record in records))


def write_json(path: Path, record: Any) -> None:
    """One record as indented JSON with sorted keys, atomically."""
    write_bytes(path, msgspec.json.format(encode(record), indent=1) + b"\n")


def write_results(path: Path, outcomes: Sequence[Outcome]) -> None:
    """benchmark_results.jsonl and, beside it, its flat projection .csv (nested fields as JSON text)."""
    write_jsonl(path, outcomes)
    fields = Outcome.__struct_fields__
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(fields)
    for outcome in outcomes:
        writer.writerow([_cell(getattr(outcome, field)) for field in fields])
    write_text(path.with_suffix(".csv"), buffer.getvalue())


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, tuple)):
        return encode(value).decode("utf-8")
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def output_lock(folder: Path) -> Iterator[None]:
    """Holds the output folder for one process. Raises UnusableInput if another one writes there now."""
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = path.open("a")
    except OSError as error:
        raise _io_fault("write", path, error) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UnusableInput(
                Problem(what="another gate writes here", file=str(folder), fix="wait for it or use another --out")
            ) from None
        yield
