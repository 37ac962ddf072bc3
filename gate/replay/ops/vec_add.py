"""vec_add: c = a + b over N elements (or M x N), the plainest memory-bound kernel."""

from __future__ import annotations

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, tolerances

WHY = "the sum of two rounded inputs is rounded once"


def elements(case: Case) -> int:
    return case.dim("N") * int(case.args.get("M", 1))


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    count = elements(case)
    return {
        name: memory.normal(memory.stack(copies, (count,), case.dtype), seed + i) for i, name in enumerate(("a", "b"))
    }


def outputs(case: Case) -> dict[str, Spec]:
    return {"out": Spec(shape=(elements(case),), dtype=case.dtype)}


def reference(case: Case, tensors: Tensors) -> Tensors:
    return {"out": tensors["a"].float() + tensors["b"].float()}


def bytes_moved(case: Case) -> float:
    return 3 * elements(case) * case.element_bytes


def flops(case: Case) -> float:
    return float(elements(case))


OP = Op(
    name="vec_add",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    tolerances=tolerances(WHY, bf16=(1e-3, 8e-3), f16=(1e-4, 1e-3), f32=(1e-7, 1e-6)),
    layout="a, b, out contiguous, N (x M) elements",
    refresh=("a", "b"),
)
