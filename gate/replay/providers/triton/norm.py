"""Triton kernels over rows and elements, each with the launch options that fit its shape."""

from __future__ import annotations

from typing import Any

import torch
import triton

from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, kernel
from gate.replay.providers.triton.common import FLOATS, torch_dtype, version
from gate.replay.providers.triton.kernels import norm as kernels

MAX_ROW = 65536


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
    x = torch_dtype(case)
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
    x = torch_dtype(case)
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
    x = torch_dtype(case)
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
