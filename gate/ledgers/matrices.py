"""Knows the providers of each op: which are measured, which are not and why, from matrices.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gate.model.matrix import PROVIDERS
from gate.model.problem import Problem, UnusableInput

MATRICES_FILE = Path(__file__).with_name("matrices.toml")
CANDIDATE = "flydsl"
# Rivals whose Python entry hides which of several backends runs; they must report it.
OPAQUE = frozenset({"aiter", "hipblaslt"})
HEADER = "# Written by 'gate ledger build' from gate/ledgers/matrices.toml; edit that file instead.\n"


class OpProviders(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The providers of one op: notes for those that are measured, the reason for each that is not."""

    dtype: str
    layout: dict[str, str]
    measured: dict[str, str]
    absent: dict[str, str] = {}


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    absent: dict[str, str]
    op: dict[str, OpProviders]


@cache
def _packaged() -> _File:
    try:
        return msgspec.toml.decode(MATRICES_FILE.read_bytes(), type=_File)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError) as error:
        raise UnusableInput(Problem(what=f"not a table of providers: {error}", file=MATRICES_FILE.name)) from None


def ops() -> frozenset[str]:
    """The ops whose providers are known."""
    return frozenset(_packaged().op)


def baselines(op: str) -> tuple[str, ...]:
    """The measured rivals of the candidate, in the contract's order of providers."""
    entry = _packaged().op.get(op)
    return tuple(name for name in PROVIDERS if entry is not None and name in entry.measured and name != CANDIDATE)


def matrix(op: str) -> dict[str, Any]:
    """The op's baseline matrix as plain data, all providers in it. Raises UnusableInput for an op without one."""
    packaged = _packaged()
    if op not in packaged.op:
        raise UnusableInput(Problem(what=f"no providers are known for {op}", file=MATRICES_FILE.name))
    entry = packaged.op[op]
    return {
        "kernel": op,
        "op_type": op,
        "dtype": entry.dtype,
        "candidate_provider": CANDIDATE,
        "reference_provider": "pytorch",
        "baseline_set": list(baselines(op)),
        "layout_contract": entry.layout,
        "providers": {name: _provider(name, op, entry, packaged.absent) for name in PROVIDERS},
    }


def _provider(name: str, op: str, entry: OpProviders, absent: dict[str, str]) -> dict[str, Any]:
    enabled = name in entry.measured
    row: dict[str, Any] = {
        "enabled": enabled,
        "entrypoint": f"gate.replay.providers.{name}:{op}",
        "provider": name,
    }
    if not enabled:
        return {**row, "skip_reason": entry.absent.get(name) or absent[name]}
    if name == CANDIDATE:
        row["commit_required"] = True
    if name in OPAQUE:
        row["backend_visibility_required"] = True
    return {**row, "notes": entry.measured[name]}


def matrix_yaml(op: str) -> str:
    """The text of the op's baseline_matrix.yaml; equal facts give equal text."""
    return HEADER + yaml.safe_dump(matrix(op), sort_keys=False, width=110, allow_unicode=False)
