"""AITER's compiled kernels over rows and elements: it chooses among its backends by N and dtype."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import FLOATS, HALVES, aiter_kernel, float_arg, own_output, writes

EPS = 1e-5
BRANCH = "by N and dtype the kernel of module_rmsnorm_quant or the generic one, AITER's choice"


@aiter_kernel(
    op="rmsnorm", provider="aiter", dtypes=FLOATS, includes_allocation=True, detail=f"aiter.rms_norm: {BRANCH}"
)
def rmsnorm(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.rmsnorm:rms_norm",
        input=tensors["x"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return own_output("out", made)


@aiter_kernel(op="fused_add_rmsnorm", provider="aiter", dtypes=FLOATS, detail=f"rmsnorm2d_fwd_with_add: {BRANCH}")
def fused_add_rmsnorm(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.rmsnorm:rmsnorm2d_fwd_with_add",
        out=tensors["out"],
        input=tensors["x"],
        residual_in=tensors["residual"],
        residual_out=tensors["residual_out"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="rmsnorm_dynamicquant", provider="aiter", dtypes=HALVES, detail=f"rmsnorm2d_fwd_with_dynamicquant: {BRANCH}"
)
def rmsnorm_dynamicquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.rmsnorm:rmsnorm2d_fwd_with_dynamicquant",
        out=tensors["out"],
        input=tensors["x"],
        yscale=tensors["scale"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="rmsnorm_fused_add_dynamicquant",
    provider="aiter",
    dtypes=HALVES,
    detail=f"rmsnorm2d_fwd_with_add_dynamicquant: {BRANCH}",
)
def rmsnorm_fused_add_dynamicquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.rmsnorm:rmsnorm2d_fwd_with_add_dynamicquant",
        out=tensors["out"],
        input=tensors["x"],
        residual_in=tensors["residual"],
        residual_out=tensors["residual_out"],
        yscale=tensors["scale"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="layernorm",
    provider="aiter",
    dtypes=HALVES,
    includes_allocation=True,
    detail="aiter.layernorm2d_fwd, module_norm (generated from Composable Kernel)",
)
def layernorm(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.norm:layernorm2d_fwd",
        input=tensors["x"],
        weight=tensors["weight"],
        bias=tensors["bias"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return own_output("out", made)


@aiter_kernel(op="layernorm_fused_add", provider="aiter", dtypes=HALVES, detail="layernorm2d_fwd_with_add, module_norm")
def layernorm_fused_add(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.norm:layernorm2d_fwd_with_add",
        out=tensors["out"],
        input=tensors["x"],
        residual_in=tensors["residual"],
        residual_out=tensors["residual_out"],
        weight=tensors["weight"],
        bias=tensors["bias"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


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
            f"AITER has kernels for topk 2, 4 and 5; for {case.dim('topk')} it calls torch.sum, which pytorch measures"
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
