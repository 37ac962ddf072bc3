"""Which files make a ledger folder, and how they are read and written together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from gate.commands.ledger_needs import lacking_rows
from gate.ledgers import facts, freeze, matrices, recipe, scan, serving
from gate.model.ledger import LedgerLock, LockedFile
from gate.model.problem import Problem, UnusableInput
from gate.model.shape import Shape
from gate.resources import frozen_ledgers_dir
from gate.store import (
    CODEGEN_FILE,
    DOCUMENT_BYTES,
    LEDGER_FILE,
    MATRIX_FILE,
    RESULTS_FILE,
    byte_lines,
    read_bytes,
    read_codegen,
    read_record,
    read_results,
    stream_lines,
    write_json,
    write_jsonl,
    write_text,
)

_NO_LEDGER = "give a ledger file, an op's folder, or a folder that holds such folders"


def op_folders(given: Path) -> list[Path]:
    """The op folders meant by `given`: itself if it holds a ledger, else those inside it. Raises UnusableInput."""
    if (given / LEDGER_FILE).exists() or (given / freeze.LOCK_FILE).exists():
        return [given]
    inside = sorted(path for path in given.glob("*") if path.is_dir() and not path.name.startswith("."))
    if not inside:
        raise UnusableInput(Problem(what="no ledger in it", file=str(given), fix=_instead_of(given)))
    return inside


def _instead_of(given: Path) -> str:
    """What to give where there is no ledger: for the bare name of a frozen op, how that one is named."""
    folder = frozen_ledgers_dir() / given.name
    if given.name and str(given) == given.name and (folder / LEDGER_FILE).is_file():
        return f"{given} is a frozen op: 'gate ledger show --op {given}' shows it, and its folder is {folder}"
    return _NO_LEDGER


def ledger_paths(given: Path) -> list[Path]:
    """The ledger files meant by `given`, which may be a file. Raises UnusableInput if there is none."""
    return [given] if given.exists() and not given.is_dir() else [folder / LEDGER_FILE for folder in op_folders(given)]


def stored_rows(path: Path) -> Iterator[Shape]:
    """The rows of a ledger that is to be built upon. Raises UnusableInput at the first row that is refused."""
    for _, row in scan.rows(stream_lines(path), file=str(path)):
        if isinstance(row, Problem):
            raise UnusableInput(row)
        yield row


def locked_files(folder: Path) -> dict[str, LockedFile]:
    """The hash of every file that the lock covers, by its path inside the folder; hidden files are not part of it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != freeze.LOCK_FILE)
    inside = [(path, path.relative_to(folder)) for path in paths]
    return {
        name.as_posix(): freeze.locked_file(name.name, byte_lines(path))
        for path, name in inside
        if not any(part.startswith(".") for part in name.parts)
    }


def baseline_problems(folder: Path) -> list[Problem]:
    """Each stored record and result of the op's baselines that no judgement could use."""
    found: list[Problem] = []
    for path in sorted((folder / "baselines").rglob("*.jsonl")):
        try:
            if path.name == CODEGEN_FILE:
                read_codegen([path])
            elif path.name == RESULTS_FILE:
                found += read_results(path).problems
        except UnusableInput as error:
            found += error.problems
    return found


def sources_on_disk(op: str) -> dict[str, bytes]:
    """The project's own fact files, by name; of those that have a part for each op, the op's part."""
    whole = {path.name: read_bytes(path) for path in (facts.MODELS_FILE, serving.TRAFFIC_FILE)}
    own = recipe.packaged_recipe().of(op)
    parts = {f"{recipe.RECIPE_FILE.name}[{op}]": msgspec.json.encode(own, order="deterministic")}
    if op in matrices.ops():
        name = f"{matrices.MATRICES_FILE.name}[{op}]"
        parts[name] = msgspec.json.encode(matrices.matrix(op), order="deterministic")
    return {**whole, **parts}


def incomplete_rows(folder: Path) -> list[Problem]:
    """The rows of the folder's ledger that lack a dimension which their op needs; none where there is no ledger."""
    path = folder / LEDGER_FILE
    return lacking_rows(stream_lines(path), file=str(path)) if path.is_file() else []


def lock_problems(folder: Path, *, sources: bool = True) -> list[Problem]:
    """What in a frozen folder is not as its lock says, and what no lock may hold: rows without a dimension that their
    op needs. A folder without a lock is one problem.

    With `sources`, also the project's own fact files that the rows were derived from.
    """
    return [*_against_lock(folder, sources=sources), *incomplete_rows(folder)]


def _against_lock(folder: Path, *, sources: bool) -> list[Problem]:
    path = folder / freeze.LOCK_FILE
    try:
        fix = "'gate ledger freeze' writes it"
        lock = read_record(path, LedgerLock, what="a ledger lock", fix=fix, most=DOCUMENT_BYTES)
    except UnusableInput as error:
        if path.exists():
            return list(error.problems)
        return [Problem(what="the ledger is not frozen", file=str(path), fix="'gate ledger freeze' writes its lock")]
    found = freeze.differences(lock, folder=str(folder), files=locked_files(folder))
    if sources:
        found += freeze.stale_sources(lock, folder=str(folder), sources=sources_on_disk(lock.op_type))
    return found


def write_frozen(folder: Path, *, shapes: list[Shape] | None, matrix: str | None) -> LedgerLock:
    """Writes ledger and matrix where given, then the lock over all that lies in the folder."""
    if shapes is not None:
        write_jsonl(folder / LEDGER_FILE, shapes)
    if matrix is not None:
        write_text(folder / MATRIX_FILE, matrix)
    kinds = {shape.source.kind for shape in stored_rows(folder / LEDGER_FILE)}
    sources = sources_on_disk(folder.name) if kinds & freeze.DERIVED else {}
    lock = freeze.lock(folder.name, files=locked_files(folder), kinds=kinds, sources=sources)
    write_json(folder / freeze.LOCK_FILE, lock)
    return lock
