"""AITER's compiled kernels over rows and elements, beside the normalisations."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import FLOATS, HALVES, aiter_kernel, own_output, writes


@aiter_kernel(
    op="vec_add",
    provider="aiter",
    dtypes=FLOATS,
    includes_allocation=True,
    detail="aiter.add, one of its elementwise kernels by shape and stride (opaque)",
)
def vec_add(case: Case, tensors: Tensors) -> Launch:
    made = call("aiter.ops.aiter_operator:add", input=tensors["a"], other=tensors["b"])
    return own_output("out", made)


@aiter_kernel(op="quant", provider="aiter", dtypes=HALVES, detail="dynamic_per_token_scaled_quant, module_quant")
def quant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.quant:dynamic_per_token_scaled_quant",
        out=tensors["out"],
        input=tensors["x"],
        scales=tensors["scale"],
    )
    return writes(made)


def _reduced(case: Case) -> str | None:
    if case.dim("topk") not in (2, 4, 5):
        return (
            f"AITER has kernels for topk 2, 4 and 5; for {case.dim('topk')} it takes torch.sum, which pytorch measures"
        )
    return None


@aiter_kernel(op="moe_reduce", provider="aiter", dtypes=FLOATS, when=_reduced, detail="moe_sum, module_moe_asm")
def moe_reduce(case: Case, tensors: Tensors) -> Launch:
    return writes(call("aiter.ops.moe_op:moe_sum", input=tensors["x"], output=tensors["out"]))


@aiter_kernel(op="topk_gating_softmax", provider="aiter", dtypes=FLOATS, detail="topk_softmax, module_moe_asm")
def topk_gating_softmax(case: Case, tensors: Tensors) -> Launch:
    import torch

    made = call(
        "aiter.ops.moe_op:topk_softmax",
        topk_weights=tensors["weights"],
        topk_indices=tensors["indices"],
        token_expert_indices=torch.empty_like(tensors["indices"]),
        gating_output=tensors["logits"],
        need_renorm=True,
    )
    return writes(made)


@aiter_kernel(op="moe_sorting", provider="aiter", dtypes=FLOATS, detail="moe_sorting_fwd, module_moe_sorting")
def moe_sorting(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.moe_sorting:moe_sorting_fwd",
        topk_ids=tensors["topk_ids"],
        topk_weights=tensors["topk_weights"],
        sorted_token_ids=tensors["sorted_ids"],
        sorted_weights=tensors["sorted_weights"],
        sorted_expert_ids=tensors["sorted_experts"],
        num_valid_ids=tensors["num_valid"],
        moe_buf=tensors["moe_buf"],
        num_experts=case.dim("num_experts"),
        unit_size=case.dim("unit_size"),
    )
    return writes(made)
