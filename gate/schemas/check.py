"""Knows how a file is held against its contract: the schema, and what no schema can say (ids, duplicates)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec
from jsonschema import Draft202012Validator

from gate.model.problem import Problem
from gate.model.shape import compute_shape_id, fault
from gate.resources import schemas_dir
from gate.schemas.explain import sentence
from gate.schemas.generate import file_name
from gate.schemas.strict import NotStrict, loads, yaml_value

JSONL = frozenset(
    {"shape_ledger", "benchmark_results", "codegen_records", "provenance", "regressions", "profile_choices"}
)
DOCUMENTS = frozenset({"decision", "status", "ledger_lock", "diagnosis"})
CSV = {
    "rocprofv3_kernel_trace": "profiler CSV: rocprofv3 kernel trace",
    "rocprofv3_agent_info": "profiler CSV: rocprofv3 agent list",
    "benchmark_results_csv": "flat projection of benchmark_results.jsonl",
}


class FileReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one file is (`contract`), how many records it holds, and each thing wrong with it."""

    file: str
    contract: str
    records: int
    problems: tuple[Problem, ...] = ()
    note: str = ""


@cache
def quick(contract: str) -> Any:
    """A compiled validator of the same schema: it says yes or no some hundred times as fast, and not why."""
    import jsonschema_rs

    schema: Any = validator(contract).schema
    return jsonschema_rs.Draft202012Validator(schema)


@cache
def validator(contract: str) -> Draft202012Validator:
    """The validator of a contract's schema file."""
    return Draft202012Validator(json.loads((schemas_dir() / file_name(contract)).read_bytes()))


# Why a row of an op cannot be, or nothing: what only the parts above this one know.
OpFault = Callable[[str], str]


def check(contract: str, *, file: str, data: bytes, op_fault: OpFault = lambda op: "") -> FileReport:
    """Holds `data` against `contract`; `file` only names it. Every bad line is one problem.

    `op_fault` says of the op of a ledger row why there is none such.
    """
    if contract in JSONL:
        records, problems = _lines(contract, file=file, data=data, op_fault=op_fault)
    elif contract in CSV:
        records, problems = _csv(file=file, data=data)
    elif contract == "baseline_matrix":
        records, problems = _yaml(contract, file=file, data=data)
    else:
        records, problems = _document(contract, file=file, data=data)
    return FileReport(
        file=file, contract=contract, records=records, problems=tuple(problems), note=CSV.get(contract, "")
    )


def _lines(contract: str, *, file: str, data: bytes, op_fault: OpFault) -> tuple[int, list[Problem]]:
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    count = 0
    for number, raw in enumerate(io.BytesIO(data), start=1):
        if not raw.strip():
            continue
        count += 1
        what, row = _line_fault(contract, raw)
        if not what and contract == "shape_ledger":
            what = op_fault(row["op_type"])
        what = what or _beyond_schema(contract, row, seen, number)
        if what:
            problems.append(_problem(file, number, what, row))
    return count, problems


def _line_fault(contract: str, raw: bytes) -> tuple[str, Any]:
    try:
        row = loads(raw)
    except ValueError as error:
        return str(error), None
    return "" if quick(contract).is_valid(row) else sentence(validator(contract).iter_errors(row)), row


def _problem(file: str, line: int | None, what: str, row: Any) -> Problem:
    named = row if isinstance(row, dict) else {}
    identity = {key: named[key] for key in ("shape_id", "provider") if isinstance(named.get(key), str)}
    return Problem(what=what, file=file, line=line, **identity)


def _beyond_schema(contract: str, row: dict[str, Any], seen: dict[str, int], number: int) -> str:
    """Sizes and dtypes no kernel has, a wrong id, or an identity that an earlier line has already."""
    if contract == "shape_ledger":
        if what := fault(op_type=row["op_type"], dtype=row["dtype"], args=row["args"]):
            return what
        want = compute_shape_id(**{key: row[key] for key in ("op_type", "model", "stage", "dtype", "layout", "args")})
        if row["shape_id"] != want:
            return f"shape_id {row['shape_id']} is not {want}, the id of its fields"
    identity = ", ".join(str(row.get(key, "flydsl")) for key in _IDENTITY[contract])
    first = seen.setdefault(identity, number)
    return f"{identity} is already on line {first}" if first != number else ""


_IDENTITY: dict[str, tuple[str, ...]] = {
    "shape_ledger": ("shape_id",),
    "benchmark_results": ("shape_id", "provider"),
    "codegen_records": ("compile_key", "provider"),
    "provenance": ("contents", "sha256"),
    "regressions": ("shape_id", "provider"),
}


def _whole(contract: str, *, file: str, value: Any) -> tuple[int, list[Problem]]:
    fault = sentence(validator(contract).iter_errors(value))
    return 1, [_problem(file, None, fault, value)] if fault else []


def _document(contract: str, *, file: str, data: bytes) -> tuple[int, list[Problem]]:
    try:
        value = loads(data)
    except ValueError as error:
        return 0, [Problem(what=str(error), file=file, fix="the file is cut off or not strict JSON")]
    return _whole(contract, file=file, value=value)


def _yaml(contract: str, *, file: str, data: bytes) -> tuple[int, list[Problem]]:
    try:
        value = yaml_value(data)
    except NotStrict as error:
        return 0, [Problem(what=str(error), file=file, line=error.line)]
    count, problems = _whole(contract, file=file, value=value)
    return count, problems or [_problem(file, None, fault, None) for fault in _matrix_faults(value)]


def _matrix_faults(matrix: dict[str, Any]) -> Iterator[str]:
    providers = matrix["providers"]
    for role in ("candidate_provider", "reference_provider"):
        name = matrix.get(role, {"candidate_provider": "flydsl", "reference_provider": "pytorch"}[role])
        if name not in providers:
            yield f"{role} {name} is not among the providers"
    for name in matrix.get("baseline_set") or ():
        if name not in providers:
            yield f"baseline_set names {name}, which is not among the providers"
    for name, entry in providers.items():
        if not entry["enabled"] and not entry.get("skip_reason"):
            yield f"providers.{name} is disabled without a skip_reason"


def _csv(*, file: str, data: bytes) -> tuple[int, list[Problem]]:
    try:
        rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        header = next(rows, [])
        problems: list[Problem] = []
        count = 0
        for row in rows:
            if row and len(row) != len(header):
                what = f"{len(row)} columns, the header has {len(header)}"
                problems.append(Problem(what=what, file=file, line=rows.line_num))
            count += 1
        return count, problems
    except (csv.Error, UnicodeDecodeError) as error:
        return 0, [Problem(what=f"not valid CSV: {error}", file=file)]


# The contracts this module can hold a file against; sources that only the importers read are checked by those.
KNOWN: frozenset[str] = JSONL | DOCUMENTS | frozenset(CSV) | {"baseline_matrix"}
