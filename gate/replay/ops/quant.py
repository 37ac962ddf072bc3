"""quant: per-token quantisation, out = x / scale as int8 or fp8 codes with scale = max|row| / largest code."""

from __future__ import annotations

from gate.replay import codes
from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, tolerances

WHY = "codes and scale have limits of their own"
SCALE_BYTES = 4


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    x = memory.stack(copies, (case.dim("M"), case.dim("N")), case.dtype)
    return {"x": memory.normal(x, seed)}


def outputs(case: Case) -> dict[str, Spec]:
    m, n = case.dim("M"), case.dim("N")
    codes.named(case)
    dtype = str(case.args.get("out_dtype", "int8"))
    return {"out": Spec(shape=(m, n), dtype=dtype), "scale": Spec(shape=(m, 1), dtype="fp32")}


def reference(case: Case, tensors: Tensors) -> Tensors:
    return codes.expected(case, tensors["x"].float())


def observe(case: Case, tensors: Tensors, given: Tensors) -> Tensors:
    return codes.observed(case, tensors["x"].float(), given)


def bytes_moved(case: Case) -> float:
    m, n = case.dim("M"), case.dim("N")
    return m * n * (case.element_bytes + 1) + m * SCALE_BYTES


def flops(case: Case) -> float:
    return 2.0 * case.dim("M") * case.dim("N")


OP = Op(
    name="quant",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    tolerances=tolerances(WHY, bf16=(0.0, 0.0), f16=(0.0, 0.0), f32=(0.0, 0.0)),
    layout="x row-major (M, N), codes out row-major (M, N), scale (M, 1) fp32",
    refresh=("x",),
    observe=observe,
    limits=codes.LIMITS,
)
