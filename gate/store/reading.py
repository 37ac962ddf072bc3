"""Files in, as bytes, lines or records of a kind: regular files alone, every refused line named."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from gate.model.problem import Problem, UnusableInput
from gate.schemas.strict import loads
from gate.store.faults import io_fault

T = TypeVar("T")
CHUNK_BYTES = 1 << 23
# A policy or a matrix has some kilobytes; results and traces have up to some hundred megabytes.
DOCUMENT_BYTES = 1 << 26
LARGEST_BYTES = 1 << 32


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
        raise io_fault("read", path, error) from None


def read_record(path: Path, record: type[T], *, what: str, fix: str, most: int = LARGEST_BYTES) -> T:
    """The one record that a JSON file of our own making holds, of at most `most` bytes. Raises UnusableInput as
    `read_bytes` and `decode_record` do.
    """
    return decode_record(read_bytes(path, most=most), record, file=path, what=what, fix=fix)


def decode_record(data: bytes, record: type[T], *, file: Path, what: str, fix: str) -> T:
    """The one record that the bytes of a JSON file hold. Raises UnusableInput, `not WHAT`, if they hold none."""
    try:
        return msgspec.json.decode(data, type=record)
    except RecursionError:
        raise UnusableInput(Problem(what=f"not {what}: nested too deeply", file=str(file), fix=fix)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnusableInput(Problem(what=f"not {what}: {error}", file=str(file), fix=fix)) from None


def read_start(path: Path, size: int = 1 << 16) -> bytes:
    """The first `size` bytes of a file. Raises UnusableInput if it cannot be read."""
    try:
        with regular(path).open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise io_fault("read", path, error) from None


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
        raise io_fault("read", path, error) from None


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
        raise io_fault("read", path, error) from None


def _refused(path: Path, number: int, raw: bytes, error: Exception) -> Problem:
    if isinstance(error, msgspec.ValidationError):
        what, fix = f"refused: {error}", "see the contract's schema in gate/schemas"
    elif isinstance(error, RecursionError):
        what, fix = "nested too deeply", "no contract has such a row"
    else:
        what, fix = _not_strict(raw, error)
    identity = _identity(raw)
    return Problem(
        what=what,
        file=str(path),
        line=number,
        fix=fix,
        shape_id=identity.get("shape_id"),
        provider=identity.get("provider"),
    )


def _not_strict(raw: bytes, error: Exception) -> tuple[str, str]:
    """What is wrong with a line that is no JSON, in the words of `gate validate`, and what to do about it.

    Those words give advice of their own where they know more than that the text ends or goes astray.
    """
    try:
        loads(raw)
    except ValueError as strict:
        what = str(strict)
    else:
        what = f"not valid JSON: {error}"
    cut = what.startswith("not valid JSON")
    return what, "the line is cut off or not strict JSON (no comments, no single quotes)" if cut else ""


def _identity(raw: bytes) -> dict[str, str]:
    """Whose row a refused line was, as far as it can be read (NaN is read here only to name the row)."""
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(row, dict):
        return {}
    return {key: row[key] for key in ("shape_id", "provider") if isinstance(row.get(key), str)}
