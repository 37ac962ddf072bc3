"""softmax: over rows of length N, with the row's maximum subtracted first."""

from __future__ import annotations

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, tolerances

WHY = "one rounding of the output to its dtype; exp and the fp32 sum differ by a few ulp between implementations"


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    x = memory.stack(copies, (case.dim("M"), case.dim("N")), case.dtype)
    # A spread of 2 makes rows peaked enough that a wrong maximum or sum shows above the tolerance.
    return {"x": memory.normal(x, seed, 2.0)}


def outputs(case: Case) -> dict[str, Spec]:
    return {"out": Spec(shape=(case.dim("M"), case.dim("N")), dtype=case.dtype)}


def reference(case: Case, tensors: Tensors) -> Tensors:
    return {"out": tensors["x"].float().softmax(dim=-1)}


def bytes_moved(case: Case) -> float:
    return 2 * case.dim("M") * case.dim("N") * case.element_bytes


def flops(case: Case) -> float:
    return 5.0 * case.dim("M") * case.dim("N")


OP = Op(
    name="softmax",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    # Outputs are near 1/N, so the absolute part must stay far below that for N up to 16384.
    tolerances=tolerances(WHY, bf16=(1e-6, 1.6e-2), f16=(2e-7, 4e-3), f32=(1e-9, 2e-5)),
    layout="x row-major (M, N), out row-major (M, N)",
    refresh=("x",),
)
