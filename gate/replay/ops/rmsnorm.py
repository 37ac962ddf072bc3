"""rmsnorm: y = x / sqrt(mean(x^2, axis=-1) + eps) * weight, over rows of length N."""

from __future__ import annotations

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, tolerances

WHY = "one rounding of the output to its dtype plus fp32 sums in another order; N up to 16384 adds under 1e-5"


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    x = memory.stack(copies, (case.dim("M"), case.dim("N")), case.dtype)
    weight = memory.stack(copies, (case.dim("N"),), case.dtype)
    return {"x": memory.normal(x, seed), "weight": memory.normal(weight, seed + 1)}


def outputs(case: Case) -> dict[str, Spec]:
    return {"out": Spec(shape=(case.dim("M"), case.dim("N")), dtype=case.dtype)}


def reference(case: Case, tensors: Tensors) -> Tensors:
    x, weight = tensors["x"].float(), tensors["weight"].float()
    scale = (x.square().mean(dim=-1, keepdim=True) + float(case.args.get("eps", 1e-5))).rsqrt()
    return {"out": x * scale * weight.unsqueeze(-2)}


def bytes_moved(case: Case) -> float:
    rows, columns = case.dim("M"), case.dim("N")
    return (2 * rows * columns + columns) * case.element_bytes


def flops(case: Case) -> float:
    return 4.0 * case.dim("M") * case.dim("N")


OP = Op(
    name="rmsnorm",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    tolerances=tolerances(WHY, bf16=(2e-2, 1.6e-2), f16=(2e-3, 2e-3), f32=(1e-5, 2e-5)),
    layout="x row-major (M, N), weight (N,), out row-major (M, N)",
    refresh=("x", "weight"),
)
