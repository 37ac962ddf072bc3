"""Records and shapes built by hand, and folders of them, for tests that need values and no compiler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.model.codegen import CodegenRecord, Metrics, Toolchain
from gate.model.shape import Shape, Source, Weight, expected_id

TOOLCHAIN = Toolchain(
    flydsl_version="0.4.0", llvm="24.0.0git abc", kernels="canaries", kernels_sha="0" * 16, arch="gfx950"
)
METRICS = Metrics(
    vgpr=60,
    agpr=0,
    sgpr=22,
    vgpr_spills=0,
    sgpr_spills=0,
    scratch_bytes=0,
    lds_bytes=16,
    workgroup_size=256,
    waves_per_simd=8,
    instructions=200,
    mix={"buffer_load_dwordx4": 8, "s_waitcnt vmcnt(0)": 2},
)


def record(op_type: str = "gemm", isa_sha: str = "a" * 16, **changes: Any) -> CodegenRecord:
    return CodegenRecord(
        compile_key=f"{op_type}/bf16/x=1",
        op_type=op_type,
        dtype="bf16",
        constexprs={"x": 1},
        status="ok",
        toolchain=TOOLCHAIN,
        arch="gfx950",
        kernel="k_0",
        metrics=msgspec.structs.replace(METRICS, **changes),
        isa_sha=isa_sha,
        opcode_sha="b" * 16,
        compile_seconds=0.2,
    )


def broken(op_type: str = "gemm", status: Any = "failed") -> CodegenRecord:
    return CodegenRecord(
        compile_key=f"{op_type}/bf16/x=1",
        op_type=op_type,
        dtype="bf16",
        constexprs={"x": 1},
        status=status,
        toolchain=TOOLCHAIN,
        arch="gfx950",
        error="ValueError: no",
    )


def shape(op_type: str, dtype: str, args: Mapping[str, Any]) -> Shape:
    return Shape(
        shape_id="sha1:0",
        op_type=op_type,
        kernel_name=op_type,
        model="m",
        stage="decode",
        arch="gfx950",
        gpu="MI350X",
        dtype=dtype,
        layout={},
        args=dict(args),
        source=Source(kind="manual"),
        weight=Weight(),
        baselines_available=(),
        notes="",
    )


def folder(path: Path, *records: CodegenRecord) -> str:
    """Writes records, a folder for each op."""
    by_op: dict[str, list[CodegenRecord]] = {}
    for one in records:
        by_op.setdefault(one.op_type, []).append(one)
    for op, rows in by_op.items():
        store.write_jsonl(path / op / store.CODEGEN_FILE, rows)
    return str(path)


def ledger(path: Path, *rows: tuple[str, dict[str, Any]]) -> str:
    """Writes ledgers of bf16, a folder for each op."""
    for op in {op for op, _ in rows}:
        shapes = [shape(name, "bf16", args) for name, args in rows if name == op]
        store.write_jsonl(
            path / op / store.LEDGER_FILE, [msgspec.structs.replace(one, shape_id=expected_id(one)) for one in shapes]
        )
    return str(path)
