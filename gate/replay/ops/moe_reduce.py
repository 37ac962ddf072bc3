"""moe_reduce: y = the sum over topk of x, the outputs of a token's experts."""

from __future__ import annotations

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, tolerances

WHY = "up to 16 rounded inputs are added in fp32 or in turn in their own dtype, then rounded once"


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    shape = (case.dim("num_tokens"), case.dim("topk"), case.dim("model_dim"))
    return {"x": memory.normal(memory.stack(copies, shape, case.dtype), seed)}


def outputs(case: Case) -> dict[str, Spec]:
    return {"out": Spec(shape=(case.dim("num_tokens"), case.dim("model_dim")), dtype=case.dtype)}


def reference(case: Case, tensors: Tensors) -> Tensors:
    return {"out": tensors["x"].float().sum(dim=-2)}


def bytes_moved(case: Case) -> float:
    return case.dim("num_tokens") * case.dim("model_dim") * (case.dim("topk") + 1) * case.element_bytes


def flops(case: Case) -> float:
    return float(case.dim("num_tokens") * case.dim("model_dim") * case.dim("topk"))


OP = Op(
    name="moe_reduce",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    tolerances=tolerances(WHY, bf16=(4e-2, 1.6e-2), f16=(5e-3, 2e-3), f32=(1e-5, 1e-5)),
    layout="x row-major (num_tokens, topk, model_dim), out row-major (num_tokens, model_dim)",
    refresh=("x",),
)
