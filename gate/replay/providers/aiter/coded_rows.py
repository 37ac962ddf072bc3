"""AITER's compiled row normalisations that put out 8-bit codes, columns multiplied before that."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import HALVES, aiter_kernel, float_arg, writes

EPS = 1e-5


@aiter_kernel(
    op="rmsnorm_smoothquant",
    provider="aiter",
    dtypes=HALVES,
    detail="rmsnorm2d_fwd_with_smoothquant, backend by AITER's own rule",
)
def rmsnorm_smoothquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.rmsnorm:rmsnorm2d_fwd_with_smoothquant",
        out=tensors["out"],
        input=tensors["x"],
        xscale=tensors["smooth"].float(),
        yscale=tensors["scale"],
        weight=tensors["weight"],
        epsilon=float_arg(case, "eps", EPS),
    )
    return writes(made)


@aiter_kernel(
    op="rmsnorm_fused_add_smoothquant",
    provider="aiter",
    dtypes=HALVES,
    detail="rmsnorm2d_fwd_with_add_smoothquant, backend by AITER's own rule",
)
def rmsnorm_fused_add_smoothquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.rmsnorm:rmsnorm2d_fwd_with_add_smoothquant",
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
    op="layernorm_smoothquant", provider="aiter", dtypes=HALVES, detail="layernorm2d_fwd_with_smoothquant, module_norm"
)
def layernorm_smoothquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.norm:layernorm2d_fwd_with_smoothquant",
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
    op="layernorm_fused_add_smoothquant",
    provider="aiter",
    dtypes=HALVES,
    detail="layernorm2d_fwd_with_add_smoothquant, module_norm",
)
def layernorm_fused_add_smoothquant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.norm:layernorm2d_fwd_with_add_smoothquant",
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
