"""AITER's Triton kernels over rows."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import FLOATS, HALVES, aiter_kernel, float_arg, own_output, writes

EPS = 1e-5


@aiter_kernel(
    op="rmsnorm", provider="aiter_triton", dtypes=FLOATS, includes_allocation=True, detail="normalization.rmsnorm"
)
def rmsnorm(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.rmsnorm:rms_norm",
        "aiter.ops.triton.rmsnorm:rms_norm",
        input=tensors["x"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return own_output("out", made)


@aiter_kernel(
    op="fused_add_rmsnorm", provider="aiter_triton", dtypes=FLOATS, detail="normalization.rmsnorm2d_fwd_with_add"
)
def fused_add_rmsnorm(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.rmsnorm:rmsnorm2d_fwd_with_add",
        "aiter.ops.triton.rmsnorm:rmsnorm2d_fwd_with_add",
        out=tensors["out"],
        input=tensors["x"],
        residual_in=tensors["residual"],
        residual_out=tensors["residual_out"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="rmsnorm_dynamicquant",
    provider="aiter_triton",
    dtypes=HALVES,
    detail="normalization.rmsnorm2d_fwd_with_dynamicquant",
)
def rmsnorm_dynamicquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.rmsnorm:rmsnorm2d_fwd_with_dynamicquant",
        "aiter.ops.triton.rmsnorm:rmsnorm2d_fwd_with_dynamicquant",
        out=tensors["out"],
        input=tensors["x"],
        yscale=tensors["scale"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="layernorm", provider="aiter_triton", dtypes=FLOATS, includes_allocation=True, detail="normalization.layer_norm"
)
def layernorm(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.norm:layer_norm",
        "aiter.ops.triton.norm:layer_norm",
        input=tensors["x"],
        weight=tensors["weight"],
        bias=tensors["bias"],
        eps=float_arg(case, "eps", EPS),
    )
    return own_output("out", made)


@aiter_kernel(
    op="layernorm_fused_add", provider="aiter_triton", dtypes=FLOATS, detail="normalization.layernorm2d_fwd_with_add"
)
def layernorm_fused_add(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.norm:layernorm2d_fwd_with_add",
        "aiter.ops.triton.norm:layernorm2d_fwd_with_add",
        out=tensors["out"],
        input=tensors["x"],
        residual_in=tensors["residual"],
        residual_out=tensors["residual_out"],
        weight=tensors["weight"],
        bias=tensors["bias"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(op="softmax", provider="aiter_triton", dtypes=FLOATS, includes_allocation=True, detail="softmax")
def softmax(case: Case, tensors: Tensors) -> Launch:
    return own_output("out", call("aiter.ops.triton.softmax:softmax", x=tensors["x"]))


@aiter_kernel(op="quant", provider="aiter_triton", dtypes=HALVES, detail="quant.dynamic_per_token_quant_fp8_i8")
def quant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.quant.quant:dynamic_per_token_quant_fp8_i8",
        "aiter.ops.triton.quant:dynamic_per_token_quant_fp8_i8",
        qx=tensors["out"],
        x_in=tensors["x"],
        scale_out=tensors["scale"],
    )
    return writes(made)


@aiter_kernel(
    op="topk_gating_softmax",
    provider="aiter_triton",
    dtypes=FLOATS,
    includes_allocation=True,
    detail="aiter.ops.triton.topk, then torch.softmax over the topk",
)
def topk_gating_softmax(case: Case, tensors: Tensors) -> Launch:
    import torch

    logits, weights, indices = tensors["logits"], tensors["weights"], tensors["indices"]
    largest = call("aiter.ops.triton.topk:topk", x=logits, k=case.dim("topk"))

    def launch() -> None:
        # The softmax of the largest alone is the renormalised softmax: the other exponentials cancel.
        values, where = largest()
        torch.softmax(values.float(), -1, out=weights)
        indices.copy_(where)

    return launch
