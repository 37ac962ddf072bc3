"""Triton kernels over rows and elements, each with the launch options that fit its shape."""

from __future__ import annotations

from typing import Any

import triton

from gate.replay import scratch
from gate.replay.codes import largest
from gate.replay.norms import EPS
from gate.replay.op import Case, Tensors
from gate.replay.provider import KernelAdapter
from gate.replay.providers.triton.calls import Call, row_warps, triton_kernel
from gate.replay.providers.triton.common import FLOATS
from gate.replay.providers.triton.kernels import norm as kernels

# Longer rows are read again instead of being kept in registers.
MAX_RESIDENT = 32768
LOOP_BLOCK = 8192
PROGRAM_ELEMENTS = 2048
# Fewer programs than this leave compute units idle.
FEW_PROGRAMS = 256
ADD_BLOCK = 4096


def resident(case: Case) -> dict[str, Any]:
    """Options of a kernel that keeps whole rows in registers; many short ones share a program, so that it moves KBs."""
    block = triton.next_power_of_2(case.dim("N"))
    rows = max(1, min(triton.next_power_of_2(case.dim("M")) // FEW_PROGRAMS, PROGRAM_ELEMENTS // block))
    return {"BLOCK": block, "ROWS": rows, "num_warps": row_warps(block * rows)}


def row_call(
    case: Case, functions: tuple[Any, Any], tensors: tuple[Any, ...], *rest: Any, options: dict[str, Any], **more: Any
) -> Call:
    """A call of the resident function with `options`, or of the looped one for a row too long for registers."""
    m, n = case.dim("M"), case.dim("N")
    if n > MAX_RESIDENT:
        looped = {**more, "BLOCK": LOOP_BLOCK, "num_warps": 16}
        return Call(function=functions[1], arguments=(*tensors, n, *rest), grid=(m,), options=looped)
    grid = (triton.cdiv(m, options["ROWS"]),)
    return Call(function=functions[0], arguments=(*tensors, m, n, *rest), grid=grid, options={**more, **options})


def in_two(case: Case) -> dict[str, Any]:
    """Options of `resident`, with a long row in two blocks where one would be more than a quarter empty."""
    options = resident(case)
    block, n = options["BLOCK"], case.dim("N")
    head = block // 2
    tail = triton.next_power_of_2(max(n - head, 1))
    if options["ROWS"] > 1 or n <= head or tail == head or block < PROGRAM_ELEMENTS:
        return {**options, "TAIL": 0}
    return {**options, "BLOCK": head, "TAIL": tail, "num_warps": row_warps(head)}


NORM_TENSORS = ("x", "residual", "weight", "bias", "smooth", "out", "residual_out", "scale")


def _norm(op: str) -> KernelAdapter:
    """The kernel of one normalisation: the tensors that its op has tell what is done."""

    @triton_kernel(op=op, dtypes=FLOATS, detail="rows in registers, several short rows a program")
    def norm(case: Case, tensors: Tensors) -> Call:
        out, eps = tensors["out"], float(case.args.get("eps", EPS))
        coded = "scale" in tensors
        return row_call(
            case,
            (kernels.norm, kernels.norm_looped),
            tuple(map(tensors.get, NORM_TENSORS)),
            eps,
            largest(out) if coded else 0.0,
            options=in_two(case),
            ROUND=coded and not out.is_floating_point(),
        )

    return norm


rmsnorm = _norm("rmsnorm")
fused_add_rmsnorm = _norm("fused_add_rmsnorm")
layernorm = _norm("layernorm")
layernorm_fused_add = _norm("layernorm_fused_add")
rmsnorm_dynamicquant = _norm("rmsnorm_dynamicquant")
rmsnorm_smoothquant = _norm("rmsnorm_smoothquant")
rmsnorm_fused_add_dynamicquant = _norm("rmsnorm_fused_add_dynamicquant")
rmsnorm_fused_add_smoothquant = _norm("rmsnorm_fused_add_smoothquant")
layernorm_dynamicquant = _norm("layernorm_dynamicquant")
layernorm_smoothquant = _norm("layernorm_smoothquant")
layernorm_fused_add_dynamicquant = _norm("layernorm_fused_add_dynamicquant")
layernorm_fused_add_smoothquant = _norm("layernorm_fused_add_smoothquant")


BACKWARD_PROGRAMS = 512


def _keeps_a_row(case: Case) -> str | None:
    return None if case.dim("N") <= MAX_RESIDENT else f"a program keeps a row: N = {case.dim('N')} > {MAX_RESIDENT}"


@triton_kernel(op="rmsnorm_bwd", dtypes=FLOATS, detail="dweight in two stages", when=_keeps_a_row)
def rmsnorm_bwd(case: Case, tensors: Tensors) -> tuple[Call, Call]:
    m, n = case.dim("M"), case.dim("N")
    programs, block = min(m, BACKWARD_PROGRAMS), triton.next_power_of_2(n)
    dweight = tensors["dweight"]
    piece = scratch.take("rmsnorm_bwd", programs * n, dweight.dtype)
    partial = dweight.new_empty(programs * n) if piece is None else piece
    rows = Call(
        function=kernels.rmsnorm_bwd,
        arguments=(*(tensors[name] for name in ("x", "dy", "weight", "rstd", "dx")), partial, m, n),
        grid=(programs,),
        options={"PROGRAMS": programs, "BLOCK": block, "num_warps": row_warps(block)},
        scratch=(partial,),
    )
    tile = {"ROWS": 32, "COLUMNS": 32, "num_warps": 4}
    sums = Call(
        function=kernels.column_sums,
        arguments=(partial, dweight, programs, n),
        grid=(triton.cdiv(n, tile["COLUMNS"]),),
        options=tile,
    )
    return rows, sums


@triton_kernel(op="softmax", dtypes=FLOATS, detail="rows in registers, several short rows a program")
def softmax(case: Case, tensors: Tensors) -> Call:
    return row_call(
        case, (kernels.softmax, kernels.softmax_looped), (tensors["x"], tensors["out"]), options=resident(case)
    )


@triton_kernel(op="vec_add", dtypes=FLOATS, detail=f"{ADD_BLOCK} elements a program")
def vec_add(case: Case, tensors: Tensors) -> Call:
    a, b, out = tensors["a"], tensors["b"], tensors["out"]
    return Call(
        function=kernels.vec_add,
        arguments=(a, b, out, out.numel()),
        grid=(triton.cdiv(out.numel(), ADD_BLOCK),),
        options={"BLOCK": ADD_BLOCK, "num_warps": 8},
    )
