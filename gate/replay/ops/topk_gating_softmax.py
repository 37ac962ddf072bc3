"""topk_gating_softmax: the topk largest of softmax(logits) of each token, made to sum to 1, and where they are."""

from __future__ import annotations

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, tolerances

WHY = "the weights stay in fp32; exp and the two divisions differ by a few ulp between implementations"


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    logits = memory.stack(copies, (case.dim("num_tokens"), case.dim("num_experts")), case.dtype)
    return {"logits": memory.normal(logits, seed, 2.0)}


def outputs(case: Case) -> dict[str, Spec]:
    shape = (case.dim("num_tokens"), case.dim("topk"))
    return {"weights": Spec(shape=shape, dtype="fp32"), "indices": Spec(shape=shape, dtype="int32")}


def _renormalised(values: Tensors) -> Tensors:
    return {name: value / value.sum(dim=-1, keepdim=True) for name, value in values.items()}


def reference(case: Case, tensors: Tensors) -> Tensors:
    best = tensors["logits"].float().softmax(dim=-1).topk(case.dim("topk"), dim=-1).values
    made = _renormalised({"weights": best, "of_indices": best})
    # Rounded logits tie, and either of two equal experts is right: weights are compared in order of size.
    return {**made, "distinct": best[..., 0] * 0 + case.dim("topk")}


def observe(case: Case, tensors: Tensors, results: Tensors) -> Tensors:
    """The weights in order, the weights that the indices stand for in order, and how many experts were named."""
    probabilities = tensors["logits"].float().softmax(dim=-1)
    indices = results["indices"].long()
    there = (indices >= 0) & (indices < case.dim("num_experts"))
    safe = indices * there
    named = probabilities.gather(-1, safe) * there
    ordered = safe.sort(dim=-1).values
    repeats = (ordered[..., 1:] == ordered[..., :-1]).sum(dim=-1)
    return {
        "weights": results["weights"].sort(dim=-1, descending=True).values,
        **_renormalised({"of_indices": named.sort(dim=-1, descending=True).values}),
        "distinct": (there.sum(dim=-1) - repeats).float(),
    }


def bytes_moved(case: Case) -> float:
    return case.dim("num_tokens") * (case.dim("num_experts") * case.element_bytes + case.dim("topk") * 8)


def flops(case: Case) -> float:
    return 4.0 * case.dim("num_tokens") * case.dim("num_experts")


OP = Op(
    name="topk_gating_softmax",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    tolerances=tolerances(WHY, bf16=(1e-5, 1e-4), f16=(1e-5, 1e-4), f32=(1e-5, 1e-4)),
    layout="logits row-major (num_tokens, num_experts); weights f32 and indices i32, both (num_tokens, topk)",
    refresh=("logits",),
    observe=observe,
)
