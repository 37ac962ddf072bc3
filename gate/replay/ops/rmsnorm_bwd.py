"""rmsnorm_bwd: the gradients of RMSNorm: dx of each row, and dweight, a sum over all rows."""

from __future__ import annotations

from gate.replay.device import Memory
from gate.replay.norms import EPS
from gate.replay.op import Case, Op, Spec, Tensors, Tolerance, tolerances

WHY = "one rounding of dx to its dtype, and fp32 sums over the row in another order"
FP32_BYTES = 4


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    m, n = case.dim("M"), case.dim("N")
    shapes = {"x": (m, n), "dy": (m, n), "weight": (n,)}
    stacks = {name: memory.stack(copies, shape, case.dtype) for name, shape in shapes.items()}
    found = {name: memory.normal(stack, seed + index) for index, (name, stack) in enumerate(stacks.items())}
    # What the forward pass keeps for each row.
    found["rstd"] = memory.stack(copies, (m, 1), "fp32")
    for rstd, x in zip(found["rstd"], found["x"], strict=True):
        rstd.copy_((x.float().square().mean(dim=-1, keepdim=True) + float(case.args.get("eps", EPS))).rsqrt())
    return found


def outputs(case: Case) -> dict[str, Spec]:
    m, n = case.dim("M"), case.dim("N")
    return {"dx": Spec(shape=(m, n), dtype=case.dtype), "dweight": Spec(shape=(n,), dtype="fp32")}


def reference(case: Case, tensors: Tensors) -> Tensors:
    x, dy, rstd = tensors["x"].float(), tensors["dy"].float(), tensors["rstd"]
    hat, wide = x * rstd, dy * tensors["weight"].float().unsqueeze(-2)
    dx = (wide - hat * (hat * wide).mean(dim=-1, keepdim=True)) * rstd
    return {"dx": dx, "dweight": (dy * hat).sum(dim=-2)}


def bytes_moved(case: Case) -> float:
    m, n = case.dim("M"), case.dim("N")
    return (3 * m * n + n) * case.element_bytes + (m + n) * FP32_BYTES


def flops(case: Case) -> float:
    return 9.0 * case.dim("M") * case.dim("N")


OP = Op(
    name="rmsnorm_bwd",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    tolerances=tolerances(WHY, bf16=(2e-2, 1.6e-2), f16=(2e-3, 2e-3), f32=(2e-5, 2e-5)),
    layout="x, dy, dx row-major (M, N), weight (N,), rstd (M, 1) fp32, dweight (N,) fp32",
    refresh=("x", "dy", "weight"),
    limits={
        "dweight": Tolerance(
            atol=3e-2, rtol=1e-4, why="an fp32 sum of up to 131072 products in any order, with partial sums near 400"
        )
    },
)
