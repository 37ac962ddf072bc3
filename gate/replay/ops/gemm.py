"""gemm (a16w16): out (M, N) = a (M, K) @ b (N, K)^T, accumulated in fp32."""

from __future__ import annotations

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, tolerances

WHY = "fp32 accumulation in another order over K, then one rounding to the output dtype; inputs are N(0, 1)"


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    a = memory.stack(copies, (case.dim("M"), case.dim("K")), case.dtype)
    b = memory.stack(copies, (case.dim("N"), case.dim("K")), case.dtype)
    return {"a": memory.normal(a, seed), "b": memory.normal(b, seed + 1)}


def outputs(case: Case) -> dict[str, Spec]:
    return {"out": Spec(shape=(case.dim("M"), case.dim("N")), dtype=case.dtype)}


def reference(case: Case, tensors: Tensors) -> Tensors:
    return {"out": tensors["a"].float() @ tensors["b"].float().transpose(-1, -2)}


def bytes_moved(case: Case) -> float:
    m, n, k = case.dim("M"), case.dim("N"), case.dim("K")
    return (m * k + n * k + m * n) * case.element_bytes


def flops(case: Case) -> float:
    return 2.0 * case.dim("M") * case.dim("N") * case.dim("K")


OP = Op(
    name="gemm",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    tolerances=tolerances(WHY, bf16=(2e-1, 1.6e-2), f16=(3e-2, 4e-3)),
    layout="a row-major (M, K), b row-major (N, K), out row-major (M, N)",
    refresh=("a",),
)
