"""`gate doctor --matrix`: the table of ops by providers, from sources, matrices, checkouts and results."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from gate.commands import doctor_contracts
from gate.contracts import matrix
from gate.ledgers import matrices
from gate.model.matrix import PROVIDERS
from gate.model.problem import Exit, Problem, UnusableInput
from gate.model.text import counted
from gate.store import RESULTS_FILE, read_bytes, read_results

OPS = Path(__file__).resolve().parents[1] / "replay" / "ops"
CANDIDATE = "flydsl"
RESULTS = (RESULTS_FILE, "correctness_results.jsonl")

Known = dict[tuple[str, str], dict[str, str]]


def report(
    ledgers: Path,
    *,
    checkouts: Mapping[str, Path | None],
    results: tuple[Path, ...],
    surveys: tuple[str, ...],
    compiles: tuple[Path, ...],
) -> int:
    """Prints the table in Markdown. Raises UnusableInput."""
    known: Known = defaultdict(dict)
    if any(checkouts.values()):
        signatures(known, doctor_contracts.findings(ledgers=ledgers, **checkouts))
    for file in compiles:
        compiled(known, file)
    op_of = {shape.shape_id: shape.op_type for shape in doctor_contracts.frozen_shapes(ledgers)}
    for folder in results:
        correct(known, folder, op_of)
    for named in surveys:
        surveyed(known, named)
    click.echo(matrix.markdown(cells(known)), nl=False)
    return Exit.PASS


def ops() -> list[str]:
    """Every op that has a file."""
    return sorted(path.stem for path in OPS.glob("*.py") if path.stem != "__init__")


def cells(known: Mapping[tuple[str, str], Mapping[str, str]]) -> list[list[matrix.Cell]]:
    """The table of all ops. Raises UnusableInput where an op has no matrix."""
    names = ops()
    reasons = {
        (op, name): str(row["skip_reason"])
        for op in names
        for name, row in matrices.matrix(op)["providers"].items()
        if not row["enabled"]
    }
    there = matrix.wired(names, PROVIDERS)
    try:
        return matrix.table(names, PROVIDERS, reasons=reasons, known=known, there=there)
    except KeyError as error:
        op, provider = error.args[0]
        what = f"{provider} is measured for {op} and has no kernel of it"
        raise UnusableInput(Problem(what=what, file="matrices.toml", fix="say there why it is absent")) from None


def signatures(known: Known, findings: list[Any]) -> None:
    """How many of a kernel's calls are as the checkout has them."""
    by_cell: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for finding in findings:
        by_cell[(finding.op, finding.provider)].append(finding.drift)
    for cell, drifts in by_cell.items():
        bad = sum(drifts)
        known[cell]["signature"] = (
            f"{bad} of {counted(len(drifts), 'signature')} drifted" if bad else "signatures checked"
        )


def compiled(known: Known, file: Path) -> None:
    """Shapes of the FlyDSL provider, or cases of AITER's, that compile for gfx950. Raises UnusableInput."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in lines(file, "op", "rows", "state", what="no answer of provider_compiles"):
        count = counts[(str(row["op"]), str(row.get("provider", CANDIDATE)))]
        count[0] += int(row["rows"]) if row["state"] == "compiled" else 0
        count[1] += int(row["rows"])
    for cell, (good, total) in counts.items():
        known[cell]["gfx950"] = f"{good} of {total} {'shapes' if cell[1] == CANDIDATE else 'cases'} compile for gfx950"


def correct(known: Known, folder: Path, op_of: Mapping[str, str]) -> None:
    """Shapes that were run and how many were correct, from every results file below a folder. Raises UnusableInput."""
    files = sorted(path for name in RESULTS for path in folder.rglob(name))
    if not files:
        raise UnusableInput(Problem(what=f"no {RESULTS_FILE} below it", file=str(folder), fix="give --results DIR"))
    right: dict[tuple[str, str, str], dict[str, bool]] = defaultdict(dict)
    for file in files:
        for row in read_results(file).outcomes:
            if row.correct is not None and row.shape_id in op_of:
                shapes = right[(op_of[row.shape_id], row.provider, str(row.gpu))]
                shapes[row.shape_id] = row.correct and shapes.get(row.shape_id, True)
    for (op, provider, gpu), shapes in right.items():
        known[(op, provider)]["correct"] = f"{sum(shapes.values())} of {len(shapes)} correct on {gpu}"


def surveyed(known: Known, named: str) -> None:
    """The same from GPU=FILE, a survey of tests/bench/ops_table.py. Raises UnusableInput."""
    gpu, _, place = named.partition("=")
    right: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for row in lines(Path(place), "op", "provider", "status", what="no row of ops_table"):
        if row["status"] != "unsupported":
            shapes = right[(str(row["op"]), str(row["provider"]))]
            shapes[json.dumps([row.get("dtype"), row.get("args")])] = row["status"] == "ok"
    for cell, shapes in right.items():
        known[cell].setdefault("correct", f"{sum(shapes.values())} of {len(shapes)} correct on {gpu}")


def lines(file: Path, *names: str, what: str) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines that hold these names. Raises UnusableInput."""
    for number, line in enumerate(read_bytes(file).splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not set(names) <= set(row):
            raise UnusableInput(Problem(what=what, file=str(file), line=number))
        yield row
