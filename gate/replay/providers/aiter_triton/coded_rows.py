"""AITER's Triton row normalisations that put out 8-bit codes."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import HALVES, aiter_kernel, float_arg, writes

EPS = 1e-5


@aiter_kernel(
    op="rmsnorm_smoothquant",
    provider="aiter_triton",
    dtypes=HALVES,
    detail="normalization.rmsnorm2d_fwd_with_smoothquant",
)
def rmsnorm_smoothquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.rmsnorm:rmsnorm2d_fwd_with_smoothquant",
        "aiter.ops.triton.rmsnorm:rmsnorm2d_fwd_with_smoothquant",
        out=tensors["out"],
        input=tensors["x"],
        xscale=tensors["smooth"].float(),
        yscale=tensors["scale"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="rmsnorm_fused_add_dynamicquant",
    provider="aiter_triton",
    dtypes=HALVES,
    detail="normalization.rmsnorm2d_fwd_with_add_dynamicquant",
)
def rmsnorm_fused_add_dynamicquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.rmsnorm:rmsnorm2d_fwd_with_add_dynamicquant",
        "aiter.ops.triton.rmsnorm:rmsnorm2d_fwd_with_add_dynamicquant",
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
    op="rmsnorm_fused_add_smoothquant",
    provider="aiter_triton",
    dtypes=HALVES,
    detail="normalization.rmsnorm2d_fwd_with_add_smoothquant",
)
def rmsnorm_fused_add_smoothquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.rmsnorm:rmsnorm2d_fwd_with_add_smoothquant",
        "aiter.ops.triton.rmsnorm:rmsnorm2d_fwd_with_add_smoothquant",
        out=tensors["out"],
        input=tensors["x"],
        residual_in=tensors["residual"],
        residual_out=tensors["residual_out"],
        xscale=tensors["smooth"].float(),
        yscale=tensors["scale"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="layernorm_dynamicquant",
    provider="aiter_triton",
    dtypes=HALVES,
    detail="normalization.layernorm2d_fwd_with_dynamicquant",
)
def layernorm_dynamicquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.norm:layernorm2d_fwd_with_dynamicquant",
        "aiter.ops.triton.norm:layernorm2d_fwd_with_dynamicquant",
        out=tensors["out"],
        input=tensors["x"],
        yscale=tensors["scale"],
        weight=tensors["weight"],
        bias=tensors["bias"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="layernorm_smoothquant",
    provider="aiter_triton",
    dtypes=HALVES,
    detail="normalization.layernorm2d_fwd_with_smoothquant",
)
def layernorm_smoothquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.norm:layernorm2d_fwd_with_smoothquant",
        "aiter.ops.triton.norm:layernorm2d_fwd_with_smoothquant",
        out=tensors["out"],
        input=tensors["x"],
        xscale=tensors["smooth"].float(),
        yscale=tensors["scale"],
        weight=tensors["weight"],
        bias=tensors["bias"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="layernorm_fused_add_dynamicquant",
    provider="aiter_triton",
    dtypes=HALVES,
    detail="normalization.layernorm2d_fwd_with_add_dynamicquant",
)
def layernorm_fused_add_dynamicquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.norm:layernorm2d_fwd_with_add_dynamicquant",
        "aiter.ops.triton.norm:layernorm2d_fwd_with_add_dynamicquant",
        out=tensors["out"],
        input=tensors["x"],
        residual_in=tensors["residual"],
        residual_out=tensors["residual_out"],
        yscale=tensors["scale"],
        weight=tensors["weight"],
        bias=tensors["bias"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="layernorm_fused_add_smoothquant",
    provider="aiter_triton",
    dtypes=HALVES,
    detail="normalization.layernorm2d_fwd_with_add_smoothquant",
)
def layernorm_fused_add_smoothquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.normalization.norm:layernorm2d_fwd_with_add_smoothquant",
        "aiter.ops.triton.norm:layernorm2d_fwd_with_add_smoothquant",
        out=tensors["out"],
        input=tensors["x"],
        residual_in=tensors["residual"],
        residual_out=tensors["residual_out"],
        xscale=tensors["smooth"].float(),
        yscale=tensors["scale"],
        weight=tensors["weight"],
        bias=tensors["bias"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)
