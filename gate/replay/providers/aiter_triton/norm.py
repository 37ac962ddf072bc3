"""AITER's Triton row normalisations: plain, after an addition, and with 8-bit codes for output."""

from __future__ import annotations

from functools import partial

from gate.replay.providers.aiter.common import FLOATS, HALVES, norm_kernel

# Every one of them allocates: what it returns, each row's statistics, or a wide row in fp32 before it is quantised.
kernel = partial(
    norm_kernel, provider="aiter_triton", dtypes=HALVES, includes_allocation=True, detail="normalization.{}"
)
rms = partial(kernel, at=("aiter.ops.triton.normalization.rmsnorm", "aiter.ops.triton.rmsnorm"))
layer = partial(kernel, at=("aiter.ops.triton.normalization.norm", "aiter.ops.triton.norm"))

rmsnorm = rms(
    "rms_norm",
    op="rmsnorm",
    takes="input weight epsilon",
    dtypes=FLOATS,
)
fused_add_rmsnorm = rms(
    "rmsnorm2d_fwd_with_add",
    op="fused_add_rmsnorm",
    takes="out input residual_in residual_out weight epsilon",
    dtypes=FLOATS,
)
rmsnorm_dynamicquant = rms(
    "rmsnorm2d_fwd_with_dynamicquant",
    op="rmsnorm_dynamicquant",
    takes="out input yscale weight epsilon",
)
rmsnorm_fused_add_dynamicquant = rms(
    "rmsnorm2d_fwd_with_add_dynamicquant",
    op="rmsnorm_fused_add_dynamicquant",
    takes="out input residual_in residual_out yscale weight epsilon",
)
rmsnorm_smoothquant = rms(
    "rmsnorm2d_fwd_with_smoothquant",
    op="rmsnorm_smoothquant",
    takes="out input xscale yscale weight epsilon",
)
rmsnorm_fused_add_smoothquant = rms(
    "rmsnorm2d_fwd_with_add_smoothquant",
    op="rmsnorm_fused_add_smoothquant",
    takes="out input residual_in residual_out xscale yscale weight epsilon",
)
layernorm = layer(
    "layer_norm",
    op="layernorm",
    takes="input weight bias eps",
    dtypes=FLOATS,
)
layernorm_fused_add = layer(
    "layernorm2d_fwd_with_add",
    op="layernorm_fused_add",
    takes="out input residual_in residual_out weight bias epsilon",
    dtypes=FLOATS,
)
layernorm_dynamicquant = layer(
    "layernorm2d_fwd_with_dynamicquant",
    op="layernorm_dynamicquant",
    takes="out input yscale weight bias epsilon",
)
layernorm_fused_add_dynamicquant = layer(
    "layernorm2d_fwd_with_add_dynamicquant",
    op="layernorm_fused_add_dynamicquant",
    takes="out input residual_in residual_out yscale weight bias epsilon",
)
layernorm_smoothquant = layer(
    "layernorm2d_fwd_with_smoothquant",
    op="layernorm_smoothquant",
    takes="out input xscale yscale weight bias epsilon",
)
layernorm_fused_add_smoothquant = layer(
    "layernorm2d_fwd_with_add_smoothquant",
    op="layernorm_fused_add_smoothquant",
    takes="out input residual_in residual_out xscale yscale weight bias epsilon",
)
