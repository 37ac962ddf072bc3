"""AITER's compiled row normalisations: plain, after an addition, and with 8-bit codes for output."""

from __future__ import annotations

from functools import partial

from gate.replay.providers.aiter.common import FLOATS, HALVES, norm_kernel

CHOICE = "{}: by N and dtype the kernel of module_rmsnorm_quant or the generic one, AITER's choice"
RULE = "{}, backend by AITER's own rule"
GENERATED = "{}, module_norm (generated from Composable Kernel)"

rms = partial(norm_kernel, at=("aiter.ops.rmsnorm",), provider="aiter", dtypes=HALVES, detail=CHOICE)
layer = partial(norm_kernel, at=("aiter.ops.norm",), provider="aiter", dtypes=HALVES, detail=GENERATED)

rmsnorm = rms(
    "rms_norm",
    op="rmsnorm",
    takes="input weight epsilon",
    dtypes=FLOATS,
    includes_allocation=True,
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
    detail=RULE,
)
rmsnorm_fused_add_smoothquant = rms(
    "rmsnorm2d_fwd_with_add_smoothquant",
    op="rmsnorm_fused_add_smoothquant",
    takes="out input residual_in residual_out xscale yscale weight epsilon",
    detail=RULE,
)
layernorm = layer(
    "layernorm2d_fwd",
    op="layernorm",
    takes="input weight bias epsilon",
    includes_allocation=True,
)
layernorm_fused_add = layer(
    "layernorm2d_fwd_with_add",
    op="layernorm_fused_add",
    takes="out input residual_in residual_out weight bias epsilon",
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
