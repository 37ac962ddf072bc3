"""Records built by hand, for tests that need values and no compiler."""

from __future__ import annotations

from typing import Any

import msgspec

from gate.model.codegen import CodegenRecord, Metrics, Toolchain

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
