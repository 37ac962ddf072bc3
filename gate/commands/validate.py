"""`gate validate`: tells which contract each file is, by its content, and reports every line that breaks it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click
import msgspec

from gate.analysis.policy_text import policy_from, waivers_from
from gate.commands.telling import tell
from gate.ledgers import documents, sources
from gate.model.problem import Exit, Problem, UnusableInput
from gate.schemas.check import KNOWN, FileReport, check
from gate.schemas.recognise import recognise
from gate.store import read_bytes


def report(path: Path) -> FileReport:
    """What the file is and everything wrong with it; a file that cannot be read is a problem too."""
    try:
        data = documents.unpacked(read_bytes(path), file=str(path))
    except UnusableInput as error:
        return FileReport(file=str(path), contract="unreadable", records=0, problems=error.problems)
    contract = recognise(data)
    if contract == "toml":
        return _toml(str(path), data)
    if contract in KNOWN:
        return check(contract, file=str(path), data=data)
    records, problems, note = sources.check(contract, file=str(path), data=data)
    return FileReport(file=str(path), contract=contract, records=records, problems=problems, note=note)


def _toml(file: str, data: bytes) -> FileReport:
    """A policy or a file of waivers, checked key by key as the judge would."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
    verdict = "valid" if not bad else f"{bad} problem{'' if bad == 1 else 's'}"
    return f"{found.file}: {found.contract}{note}, {found.records} records, {verdict}"


def as_plain(found: list[FileReport]) -> dict[str, Any]:
    """All files as plain data for --json."""
    return {"valid": not any(item.problems for item in found), "files": msgspec.to_builtins(found)}


@click.command("validate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(files: tuple[Path, ...], as_json: bool) -> int:
    """Tell which contract each FILE is and check every line; a folder stands for all files in it.

    Exit code 0 if all are valid, 2 if any is not.
    """
    paths = [path for given in files for path in _expand(given)]
    found = [report(path) for path in paths]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(as_plain(found)), indent=1).decode("utf-8"))
    else:
        for item in found:
            click.echo(as_line(item))
    for item in found:
        for problem in item.problems:
            tell(problem)
    return Exit.NO_VERDICT if any(item.problems for item in found) or not found else Exit.PASS


def _expand(given: Path) -> list[Path]:
    if not given.is_dir():
        return [given]
    return sorted(path for path in given.rglob("*") if path.is_file() and not path.name.startswith("."))
