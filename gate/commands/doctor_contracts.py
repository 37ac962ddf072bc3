"""`gate doctor --contracts`: the providers' calls against checkouts of AITER and FlyDSL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click
import msgspec

from gate.contracts.calls import provider_calls
from gate.contracts.check import Finding, check_calls
from gate.contracts.recipes import check_recipes
from gate.model.problem import Exit, Problem, UnusableInput, WrongUsage
from gate.model.shape import Shape
from gate.model.text import one_line
from gate.store import LEDGER_FILE, read_ledger

# A folder that every checkout has had, and the package whose calls are held against it.
LANDMARKS = {"aiter": "aiter", "flydsl": "kernels"}


def report(*, aiter: Path | None, flydsl: Path | None, ledgers: Path, as_json: bool) -> int:
    """Prints each drift and how many calls are as written. Raises WrongUsage, UnusableInput."""
    if aiter is None and flydsl is None:
        fix = "give --aiter DIR, --flydsl DIR or both"
        raise WrongUsage(Problem(what="no checkout to check against", file="--contracts", fix=fix))
    found = findings(aiter=aiter, flydsl=flydsl, ledgers=ledgers)
    drifts = [finding for finding in found if finding.drift]
    if as_json:
        document = {"findings": [asdict(finding) for finding in found], "drifts": len(drifts)}
        click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        for finding in found:
            if finding.state != "ok":
                click.echo(one_line(line(finding)))
        click.echo(f"{len(drifts)} drifted, {len(found) - len(drifts)} as called")
    return Exit.BLOCK if drifts else Exit.PASS


def line(finding: Finding) -> str:
    """One finding: what state, whose call, what is the matter, and where in the checkout and in the gate."""
    return (
        f"{finding.state.replace('_', ' ')}: {finding.provider} {finding.op}: {finding.what} "
        f"({finding.where}; called in {finding.caller})"
    )


def findings(*, aiter: Path | None, flydsl: Path | None, ledgers: Path) -> list[Finding]:
    """Every call of the providers against the checkouts that are given. Raises UnusableInput."""
    found: list[Finding] = []
    if aiter is not None:
        usable("aiter", aiter)
        calls = [call for call in provider_calls() if call.places[0].startswith("aiter")]
        found += check_calls(calls, aiter)
    if flydsl is not None:
        usable("flydsl", flydsl)
        found += check_recipes(((shape.op_type, shape.dtype, shape.args) for shape in frozen_shapes(ledgers)), flydsl)
    return found


def usable(name: str, folder: Path) -> None:
    """Raises UnusableInput when the folder is no checkout of that project."""
    if not (folder / LANDMARKS[name]).is_dir():
        what = f"no checkout: it has no folder {LANDMARKS[name]}"
        raise UnusableInput(Problem(what=what, file=str(folder), fix=f"give --{name} the root of a clone"))


def frozen_shapes(ledgers: Path) -> Iterator[Shape]:
    """Every frozen shape. Raises UnusableInput."""
    files = sorted(ledgers.glob(f"*/{LEDGER_FILE}"))
    if not files:
        raise UnusableInput(Problem(what="no ledgers in it", file=str(ledgers), fix="give --ledgers DIR"))
    for file in files:
        yield from read_ledger(file).shapes
