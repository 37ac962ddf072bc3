"""Knows which contract or source a file is, by what stands in it and never by its name."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

# A JSONL contract is told by keys that only its rows have together; order matters where one set holds another.
RECORD_KEYS: tuple[tuple[str, frozenset[str]], ...] = (
    ("benchmark_results", frozenset({"shape_id", "provider", "benchmark_status"})),
    ("benchmark_results", frozenset({"run_id", "shape_id", "provider"})),
    ("codegen_records", frozenset({"compile_key", "constexprs"})),
    ("regressions", frozenset({"shape_id", "provider", "verdict", "reasons"})),
    ("profile_choices", frozenset({"shape_id", "provider", "profile", "reason"})),
    ("provenance", frozenset({"contents", "how", "sha256"})),
    ("shape_ledger", frozenset({"shape_id", "op_type", "source"})),
    ("shape_ledger", frozenset({"shape_id", "op_type", "args", "stage"})),
    # What somebody writes by hand before reading the schema; the fields that are absent are then named.
    ("benchmark_results", frozenset({"shape_id", "provider", "median_us"})),
    ("benchmark_results", frozenset({"shape_id", "provider", "graph_median_us"})),
    ("shape_ledger", frozenset({"op_type", "dtype", "args"})),
)
DOCUMENT_KEYS: tuple[tuple[str, frozenset[str]], ...] = (
    ("decision", frozenset({"gate", "decision", "rows"})),
    ("decision", frozenset({"gate", "headline", "counts"})),
    ("status", frozenset({"state", "description"})),
    ("diagnosis", frozenset({"shape_id", "provider", "tool", "kernels"})),
    ("ledger_lock", frozenset({"files", "op_type"})),
    ("torch_trace", frozenset({"traceEvents"})),
    ("hf_config", frozenset({"hidden_size"})),
    ("hf_config", frozenset({"text_config"})),
    ("baseline_matrix", frozenset({"kernel", "providers"})),
)
CSV_HEADERS: tuple[tuple[str, frozenset[str]], ...] = (
    ("rocprofv3_kernel_trace", frozenset({"Kernel_Name", "Start_Timestamp", "End_Timestamp"})),
    ("rocprofv3_agent_info", frozenset({"Node_Id", "Agent_Type", "Simd_Count"})),
    ("benchmark_results_csv", frozenset({"shape_id", "provider", "benchmark_status"})),
)
_SHAPES_FILE = re.compile(rb'\A\s*\{\s*"[^"]+"\s*:\s*\{\s*"[^"]+"\s*:\s*\[\s*\{')
_MANUAL = re.compile(rb"\A\s*(?:\[\s*\{|-\s+\S|shapes\s*:)")
_SGLANG = re.compile(rb"(?:Prefill batch|Decode batch)[^\n]*#(?:new-token|running-req)")
_YAML_KEY = re.compile(rb"^([A-Za-z_]\w*):", re.MULTILINE)
_TOML_LINE = re.compile(rb"^\s*(?:\[\[?[\w.\" -]+\]\]?|[\w-]+\s*=)", re.MULTILINE)
UNKNOWN = "unknown"


def recognise(data: bytes) -> str:
    """The contract's name, or "unknown". A damaged file is still told by the keys that can be read in it."""
    data = data.removeprefix(codecs.BOM_UTF8)
    start = data.lstrip()[:1]
    if not start:
        return "empty"
    if start == b"{":
        return _json_object(data)
    if start == b"[" and _MANUAL.match(data):
        return "manual_shapes"
    return _plain_text(data)


def _by_keys(keys: set[str], table: tuple[tuple[str, frozenset[str]], ...]) -> str | None:
    return next((name for name, wanted in table if wanted <= keys), None)


def _json_object(data: bytes) -> str:
    first = data.lstrip().split(b"\n", 1)[0]
    keys = _keys(_lenient(first)) or _keys(_lenient(data))
    found = _by_keys(keys, RECORD_KEYS) or _by_keys(keys, DOCUMENT_KEYS)
    if found is None and _SHAPES_FILE.match(data):
        return "aiter_model_shapes"
    if found is None:
        seen = {key.decode("utf-8", "replace") for key in re.findall(rb'"(\w+)"\s*:', data[: 1 << 20])}
        found = _by_keys(seen, RECORD_KEYS) or _by_keys(seen, DOCUMENT_KEYS)
    return found or UNKNOWN


def _lenient(data: bytes) -> Any:
    """The JSON value if there is one; NaN is read here, since this only decides what the file means to be."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _keys(value: Any) -> set[str]:
    return set(value) if isinstance(value, dict) else set()


def _plain_text(data: bytes) -> str:
    header = data.split(b"\n", 1)[0].decode("utf-8", "replace")
    columns = {cell.strip().strip('"') for cell in header.split(",")}
    found = _by_keys(columns, CSV_HEADERS)
    if found is not None:
        return found
    if _SGLANG.search(data[: 1 << 24]):
        return "sglang_log"
    keys = {key.decode("utf-8") for key in _YAML_KEY.findall(data)}
    found = _by_keys(keys, DOCUMENT_KEYS)
    if found is not None:
        return found
    if {"providers", "op_type"} & keys:
        return "baseline_matrix"
    if _MANUAL.match(data):
        return "manual_shapes"
    return "toml" if _TOML_LINE.search(data) else UNKNOWN
