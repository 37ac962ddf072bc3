"""Knows how each contract's JSON Schema (draft 2020-12) follows from its model; `python -m` writes the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from gate.model.baseline import Provenance
from gate.model.codegen import CodegenRecord
from gate.model.decision import Decision, RowFinding
from gate.model.diagnosis import Diagnosis, ProfileChoice
from gate.model.ledger import LedgerLock
from gate.model.matrix import PROVIDERS, Matrix
from gate.model.outcome import Outcome
from gate.model.shape import DTYPES, Shape
from gate.model.status import CommitStatus

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# contract -> (version, model). The version rises when a file that was valid no longer is.
CONTRACTS: dict[str, tuple[int, type]] = {
    "shape_ledger": (2, Shape),
    "baseline_matrix": (1, Matrix),
    "benchmark_results": (1, Outcome),
    "codegen_records": (2, CodegenRecord),
    "decision": (1, Decision),
    "regressions": (1, RowFinding),
    "status": (1, CommitStatus),
    "ledger_lock": (1, LedgerLock),
    "provenance": (1, Provenance),
    "diagnosis": (1, Diagnosis),
    "profile_choices": (1, ProfileChoice),
}
_SHAPE_ID = {"pattern": "^sha1:[0-9a-f]{16}$"}
# What compiling yields; a record that says ok has it.
_COMPILED = {"kernel": {"type": "string", "minLength": 1}, "isa_sha": {"type": "string", "minLength": 1}}
_OK_HAS_CODE = {
    "if": {"properties": {"status": {"const": "ok"}}},
    "then": {"required": ["kernel", "metrics", "isa_sha"], "properties": {**_COMPILED, "metrics": {"type": "object"}}},
}
# What the contracts fix beyond the types: (definition, property or None for the definition itself, more keywords).
_TIGHTER: tuple[tuple[str, str | None, dict[str, Any]], ...] = (
    ("Shape", "shape_id", _SHAPE_ID),
    ("Shape", "dtype", {"enum": sorted(DTYPES)}),
    ("CodegenRecord", None, _OK_HAS_CODE),
    ("Outcome", "shape_id", _SHAPE_ID),
    ("RowFinding", "shape_id", _SHAPE_ID),
    ("ProfileChoice", "shape_id", _SHAPE_ID),
    ("Weight", "occurrences", {"minimum": 0}),
    ("Weight", "traffic_weight", {"minimum": 0}),
    ("Weight", "baseline_time_weight", {"minimum": 0}),
    ("MatrixProvider", "entrypoint", {"pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"}),
    ("Matrix", "providers", {"propertyNames": {"enum": sorted(PROVIDERS)}, "minProperties": 1}),
    ("Provenance", "sha256", {"pattern": "^[0-9a-f]{64}$"}),
    ("CommitStatus", "description", {"maxLength": 140}),
)


def schema(contract: str) -> dict[str, Any]:
    """The JSON Schema of one contract: one record of a JSONL file, or the whole document of the others."""
    version, model = CONTRACTS[contract]
    body = msgspec.json.schema(model)
    for definition, field, keywords in _TIGHTER:
        if definition in body["$defs"]:
            target = body["$defs"][definition]
            (target["properties"][field] if field else target).update(keywords)
    return {"$schema": DIALECT, "$id": f"urn:flydsl-gate:{contract}:{version}", "title": contract, **body}


def text(contract: str) -> str:
    """The schema file's text; equal models give equal text."""
    return json.dumps(schema(contract), indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def file_name(contract: str) -> str:
    """The schema's file name inside gate/schemas."""
    return f"{contract}.schema.json"


def main() -> None:
    """Writes every schema file beside this module."""
    for contract in CONTRACTS:
        Path(__file__).with_name(file_name(contract)).write_text(text(contract), encoding="utf-8")


if __name__ == "__main__":
    main()
