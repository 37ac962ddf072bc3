"""Knows where a compiled case lies on disk: one file per toolchain and case, named by the hash of both.

What is kept is the worker's answer with the whole assembly, not the numbers read from it: a better reader needs no
recompilation. Crashes and timeouts are not kept, because they may be the machine's doing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gate.codegen import aiter_cases, checkout, triton_cases
from gate.codegen.keys import CompileCase
from gate.model.codegen import CodegenRecord, Toolchain
from gate.model.problem import Problem, UnusableInput

KEPT = frozenset({"ok", "failed", "unsupported"})


def entry_path(directory: Path, toolchain: Toolchain, case: CompileCase, *, worker_sha: str) -> Path:
    """Return the file of one case: SHA-256 over everything that decides its code.

    A case that knows its own sources is not named by the rest of the checkout, so a commit that touches one family
    leaves the others where they were.
    """
    decides = msgspec.structs.replace(toolchain, kernels_commit=None)
    if case.source_sha is not None:
        decides = msgspec.structs.replace(decides, kernels_sha=case.source_sha)
    identity = [worker_sha, msgspec.to_builtins(decides), msgspec.to_builtins(case)]
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return directory / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"


def read_entry(path: Path) -> dict[str, Any] | None:
    """Return the answer kept at `path`, or None where there is none, or one that is not as it was written."""
    try:
        digest, _, text = path.read_text("utf-8").partition("\n")
        reply = json.loads(text)
    except (OSError, ValueError):
        return None
    whole = digest == hashlib.sha256(text.encode()).hexdigest()
    return reply if whole and isinstance(reply, dict) and reply.get("status") in KEPT else None


def write_entry(path: Path, reply: Mapping[str, Any]) -> None:
    """Keep an answer under its hash, whole or not at all. Raises UnusableInput when it cannot be written."""
    if reply.get("status") not in KEPT:
        return
    text = json.dumps(reply)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        fix = "make room, or choose a folder that can be written"
        raise UnusableInput(Problem(what=f"cannot write: {error.strerror}", file=str(path), fix=fix)) from None


def sources_sha(*paths: Path, suffixes: tuple[str, ...] = (".py",)) -> str:
    """Return 16 hex digits of SHA-256 over sources: files, and every file of these kinds below a directory."""
    digest = hashlib.sha256()
    for root in paths:
        below = (path for path in root.rglob("*") if path.suffix in suffixes and path.is_file())
        for path in [root] if root.is_file() else sorted(below):
            name = path.name if path == root else path.relative_to(root).as_posix()
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def case_of(record: CodegenRecord) -> CompileCase:
    """The case a record answers. Its key is the record's own: a file keeps no order of the constexprs."""
    made = _made(record)
    return msgspec.structs.replace(made, compile_key=record.compile_key, source_sha=record.source_sha)


def _made(record: CodegenRecord) -> CompileCase:
    if record.toolchain.kernels == checkout.NAME:
        return checkout.case_of(record.op_type, record.dtype, record.constexprs)
    if record.toolchain.kernels == aiter_cases.NAME:
        return aiter_cases.case_of(record.op_type, record.dtype, record.constexprs)
    if record.toolchain.kernels == triton_cases.NAME:
        return triton_cases.case_of(record.op_type, record.dtype, record.constexprs)
    return CompileCase(
        compile_key=record.compile_key,
        op_type=record.op_type,
        dtype=record.dtype,
        constexprs=record.constexprs,
    )
