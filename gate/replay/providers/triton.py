"""Kernels of our own in Triton: a baseline that is meant to be hard to beat with a day's work."""

from __future__ import annotations

import sys
from typing import Any

import torch
import triton

from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, ProviderAdapter, adapter_from, kernel
from gate.replay.providers import triton_kernels as kernels

FLOATS = ("bf16", "fp16", "f16", "fp32", "f32")
HALVES = ("bf16", "fp16", "f16")
TORCH = {"fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16", "bf16": "bfloat16"}
MAX_ROW = 65536


def version() -> str | None:
    """Triton's version."""
    found: str | None = triton.__version__
    return found


def _dtype(case: Case) -> Any:
    return getattr(torch, TORCH[case.dtype])


def _row_limit(case: Case) -> str | None:
    if case.dim("N") > MAX_ROW:
        return f"one program holds a whole row: N = {case.dim('N')} is above {MAX_ROW}"
    return None


def _row_warps(columns: int) -> int:
    """About 16 elements a lane: enough loads in flight to cover memory latency, few enough registers not to spill."""
    warp = 64 if torch.version.hip else 32
    return max(1, min(16, int(triton.next_power_of_2(columns)) // (16 * warp)))


def _rms_options(case: Case) -> dict[str, Any]:
    columns = case.dim("N")
    return {"BLOCK": triton.next_power_of_2(columns), "num_warps": _row_warps(columns)}


def _compile_rmsnorm(case: Case) -> None:
    x = _dtype(case)
    eps = float(case.args.get("eps", 1e-5))
    kernels.rmsnorm.warmup(x, x, x, case.dim("N"), eps, grid=(1,), **_rms_options(case))


@kernel(
    op="rmsnorm",
    provider="triton",
    dtypes=FLOATS,
    detail="one program per row, the row in registers",
    when=_row_limit,
    compiler=_compile_rmsnorm,
    version=version,
)
def rmsnorm(case: Case, tensors: Tensors) -> Launch:
    x, weight, out = tensors["x"], tensors["weight"], tensors["out"]
    columns, eps, grid = case.dim("N"), float(case.args.get("eps", 1e-5)), (case.dim("M"),)
    options = _rms_options(case)

    def launch() -> None:
        kernels.rmsnorm[grid](x, weight, out, columns, eps, **options)

    return launch


def _softmax_options(case: Case) -> dict[str, Any]:
    block = triton.next_power_of_2(case.dim("N"))
    # Short rows share a program, so that a program still moves some kilobytes.
    rows = max(1, min(triton.next_power_of_2(case.dim("M")), 2048 // block))
    return {"BLOCK": block, "ROWS": rows, "num_warps": _row_warps(block * rows)}


def _compile_softmax(case: Case) -> None:
    x = _dtype(case)
    kernels.softmax.warmup(x, x, case.dim("M"), case.dim("N"), grid=(1,), **_softmax_options(case))


@kernel(
    op="softmax",
    provider="triton",
    dtypes=FLOATS,
    detail="rows in registers, several short rows a program",
    when=_row_limit,
    compiler=_compile_softmax,
    version=version,
)
def softmax(case: Case, tensors: Tensors) -> Launch:
    x, out = tensors["x"], tensors["out"]
    rows, columns, options = case.dim("M"), case.dim("N"), _softmax_options(case)
    grid = (triton.cdiv(rows, options["ROWS"]),)

    def launch() -> None:
        kernels.softmax[grid](x, out, rows, columns, **options)

    return launch


ADD_BLOCK = 4096


def _compile_vec_add(case: Case) -> None:
    x = _dtype(case)
    count = case.dim("N") * int(case.args.get("M", 1))
    kernels.vec_add.warmup(x, x, x, count, BLOCK=ADD_BLOCK, grid=(1,), num_warps=8)


@kernel(
    op="vec_add",
    provider="triton",
    dtypes=FLOATS,
    detail=f"{ADD_BLOCK} elements a program",
    compiler=_compile_vec_add,
    version=version,
)
def vec_add(case: Case, tensors: Tensors) -> Launch:
    a, b, out = tensors["a"], tensors["b"], tensors["out"]
    count = out.numel()
    grid = (triton.cdiv(count, ADD_BLOCK),)

    def launch() -> None:
        kernels.vec_add[grid](a, b, out, count, BLOCK=ADD_BLOCK, num_warps=8)

    return launch


def _compile_gemm(case: Case) -> None:
    x = _dtype(case)
    m, n, k = (case.dim(name) for name in ("M", "N", "K"))
    for config in kernels.configs_for(m, n, k):
        kernels.gemm.warmup(x, x, x, m, n, k, grid=(1,), **config)


@kernel(
    op="gemm",
    provider="triton",
    dtypes=HALVES,
    detail="tiled product in grouped order, the quickest of a few tile sizes",
    compiler=_compile_gemm,
    version=version,
)
def gemm(case: Case, tensors: Tensors) -> Launch:
    a, b, out = tensors["a"], tensors["b"], tensors["out"]
    m, n, k = (case.dim(name) for name in ("M", "N", "K"))
    config = kernels.tuned(a, b, out)
    grid = (triton.cdiv(m, config["BM"]) * triton.cdiv(n, config["BN"]),)

    def launch() -> None:
        kernels.gemm[grid](a, b, out, m, n, k, **config)

    return launch


def get_adapter(op_type: str) -> ProviderAdapter:
    """The kernel for an op. Raises NoKernel."""
    return adapter_from(sys.modules[__name__], op_type)
