"""`gate validate`: tells which contract each file is, by its content, and reports every line that breaks it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from gate.analysis.policy_text import policy_from, waivers_from
from gate.commands.ledger_needs import lacking, lacking_rows
from gate.commands.telling import say, say_json, tell
from gate.ledgers import documents, sources
from gate.ledgers.known import unknown as unknown_op
from gate.model.problem import Exit, Problem, UnusableInput
from gate.model.text import counted
from gate.schemas.check import KNOWN, FileReport, check
from gate.schemas.outputs import CONTRACT_FILES, MAY_BE_EMPTY, own_output
from gate.schemas.recognise import UNKNOWN, recognise
from gate.store import DOCUMENT_BYTES, read_bytes

# Contracts and sources that people write; larger ones are damaged.
SMALL = frozenset({"baseline_matrix", "ledger_lock", "status", "toml", "hf_config", "aiter_model_shapes"})
UNKNOWN_FILE = "none of the contracts, nor a source that an importer reads"


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a folder that is held against no contract, and why."""

    file: str
    why: str


def report(path: Path) -> FileReport:
    """What the file is and everything wrong with it; a file that cannot be read is a problem too."""
    try:
        data = documents.unpacked(read_bytes(path), file=str(path))
    except UnusableInput as error:
        return FileReport(file=str(path), contract="unreadable", records=0, problems=error.problems)
    contract = recognise(data)
    if contract in SMALL and len(data) > DOCUMENT_BYTES:
        what = f"{len(data) >> 20} MiB are more than the {DOCUMENT_BYTES >> 20} MiB that are read of such a file"
        problem = Problem(what=what, file=str(path), fix="give the right file")
        return FileReport(file=str(path), contract=contract, records=0, problems=(problem,))
    if contract == "empty" and path.name in MAY_BE_EMPTY:
        return FileReport(file=str(path), contract=MAY_BE_EMPTY[path.name], records=0)
    if contract == "toml":
        return _toml(str(path), data)
    if contract in KNOWN:
        found = check(contract, file=str(path), data=data, op_fault=unknown_op)
        return _whole_shapes(found, data) if contract == "shape_ledger" else found
    records, problems, note = sources.check(contract, file=str(path), data=data, lacking=lacking)
    return FileReport(file=str(path), contract=contract, records=records, problems=problems, note=note)


def _whole_shapes(found: FileReport, data: bytes) -> FileReport:
    """The report on a ledger, with each line whose shape lacks a dimension; one problem a line."""
    known = {problem.line for problem in found.problems}
    incomplete = lacking_rows(enumerate(data.split(b"\n"), start=1), file=found.file)
    problems = (*found.problems, *(problem for problem in incomplete if problem.line not in known))
    return msgspec.structs.replace(found, problems=tuple(sorted(problems, key=lambda problem: problem.line or 0)))


def _toml(file: str, data: bytes) -> FileReport:
    """A policy or a file of waivers, checked key by key as the judge would."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        problem = Problem(what=f"not valid TOML: {error}", file=file)
        return FileReport(file=file, contract="toml", records=0, problems=(problem,))
    contract = "waivers" if "waiver" in document else "policy"
    try:
        (waivers_from if contract == "waivers" else policy_from)(document, file=file)
    except UnusableInput as error:
        return FileReport(file=file, contract=contract, records=0, problems=error.problems)
    records = len(document["waiver"]) if contract == "waivers" else len(document)
    return FileReport(file=file, contract=contract, records=records)


def as_line(found: FileReport) -> str:
    """One line on a file."""
    note = f" ({found.note})" if found.note else ""
    bad = len(found.problems)
    verdict = "valid" if not bad else counted(bad, "problem")
    return f"{found.file}: {found.contract}{note}, {counted(found.records, 'record')}, {verdict}"


def as_plain(found: list[FileReport], skipped: list[Skipped]) -> dict[str, Any]:
    """All files as plain data for --json."""
    plain: dict[str, Any] = msgspec.to_builtins({"files": found, "skipped": skipped})
    return {"valid": bool(found) and not any(item.problems for item in found), **plain}


@click.command("validate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(files: tuple[Path, ...], as_json: bool) -> int:
    """Tell which contract each FILE is and check every line; a folder stands for all files in it.

    In a folder, files that are none of the contracts are skipped and said to be: the gate's pages and texts, and
    what it does not know. Exit code 0 if all others are valid, 2 if any is not or none is left.
    """
    found: list[FileReport] = []
    skipped: list[Skipped] = []
    for given in files:
        for item in _of_folder(given) if given.is_dir() else (report(given),):
            if isinstance(item, Skipped):
                skipped.append(item)
            else:
                found.append(item)
    if as_json:
        say_json(as_plain(found, skipped))
    else:
        for line in (*map(as_line, found), *_skipped_lines(skipped)):
            say(line)
    for one in found:
        for problem in one.problems:
            tell(problem)
    if not found:
        tell(Problem(what="no file in it that could be checked", file=" ".join(map(str, files))))
    return Exit.NO_VERDICT if any(one.problems for one in found) or not found else Exit.PASS


def _of_folder(folder: Path) -> Iterator[FileReport | Skipped]:
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        if not path.is_file():
            yield Skipped(file=str(path), why="not a regular file")
            continue
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        why = "hidden file" if hidden else own_output(str(path))
        if why:
            yield Skipped(file=str(path), why=why)
            continue
        item = report(path)
        stray = item.contract == UNKNOWN and path.name not in CONTRACT_FILES
        yield Skipped(file=str(path), why=UNKNOWN_FILE) if stray else item


def _skipped_lines(skipped: list[Skipped]) -> Iterator[str]:
    """One line for each kind of own output, one for each file that the gate does not know."""
    groups: dict[str, list[str]] = {}
    for item in skipped:
        groups.setdefault(item.why, []).append(item.file)
    for file in groups.pop(UNKNOWN_FILE, ()):
        yield f"{file}: skipped, {UNKNOWN_FILE}"
    for why, names in groups.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more}: skipped, {why}"
