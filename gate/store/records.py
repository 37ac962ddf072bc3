"""The data files by name: ledger, matrix, results, machine-code records, policy."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from gate.model.codegen import CodegenRecord
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.outcome import VERSION_FIELDS, Measured, MeasuredResults, Outcome, Results
from gate.model.problem import Problem, UnusableInput
from gate.model.shape import Shape, expected_id, fault
from gate.schemas.strict import NotStrict, yaml_value
from gate.store.reading import decode_bulk, decode_lines, read_document

LEDGER_FILE = "shape_ledger.jsonl"
MATRIX_FILE = "baseline_matrix.yaml"
RESULTS_FILE = "benchmark_results.jsonl"
CODEGEN_FILE = "codegen_records.jsonl"


def read_ledger(path: Path) -> Ledger:
    """The ledger in `path`; rows with a wrong or repeated id, or that no kernel can have, are refused by line."""
    rows, problems = decode_lines(path, Shape)
    shapes: list[Shape] = []
    seen: dict[str, int] = {}
    for number, shape in rows:
        what = _ledger_fault(shape, seen)
        if what:
            problems.append(_ledger_problem(path, number, shape, what))
        else:
            seen[shape.shape_id] = number
            shapes.append(shape)
    return Ledger(shapes=tuple(shapes), problems=tuple(sorted(problems, key=lambda p: p.line or 0)))


def _ledger_fault(shape: Shape, seen: Mapping[str, int]) -> str:
    """What is wrong with a row beside those `seen` (line by shape_id); empty if nothing is."""
    want = expected_id(shape)
    if shape.shape_id != want:
        return f"shape_id {shape.shape_id} is not {want}, the id of its fields"
    if shape.shape_id in seen:
        return f"{shape.shape_id} is already on line {seen[shape.shape_id]}"
    return fault(op_type=shape.op_type, dtype=shape.dtype, args=shape.args)


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
    *VERSION_FIELDS,
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
