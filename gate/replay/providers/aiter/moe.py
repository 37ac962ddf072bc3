"""AITER's mixture of experts as one call; it sorts the tokens itself, in the timed part."""

from __future__ import annotations

from typing import Any

from gate.replay.call import call, find
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import aiter_kernel, own_output, shuffled

BACKENDS = "routing, both products and the codes between; backend by AITER's tuning table (opaque)"


def _fused(tensors: Tensors, quant_type: Any, *, x: Any, w1: Any, w2: Any, scales: tuple[Any, Any, Any]) -> Launch:
    import torch

    activation = find("aiter.ops.enum:ActivationType")
    made = call(
        "aiter.fused_moe:fused_moe",
        hidden_states=x,
        w1=w1,
        w2=w2,
        topk_weight=tensors["topk_weights"],
        topk_ids=tensors["topk_ids"],
        activation=activation.Silu,
        quant_type=quant_type,
        w1_scale=scales[1],
        w2_scale=scales[2],
        a1_scale=scales[0],
        dtype=torch.bfloat16,
    )
    return own_output("out", made)


def _four_bits(case: Case) -> str | None:
    if case.dtype == "mixed_a8w4":
        return "AITER's fp8 by fp4 product quantises bf16 activations itself; this op's are fp8 already"
    return None


@aiter_kernel(
    op="moe_gemm",
    provider="aiter",
    dtypes=("fp8", "int8", "fp4", "mixed_a8w4"),
    when=_four_bits,
    includes_allocation=True,
    detail=f"aiter.fused_moe.fused_moe: {BACKENDS}",
)
def moe_gemm(case: Case, tensors: Tensors) -> Launch:
    import torch

    quant_type = find("aiter.ops.enum:QuantType")
    x, w1, w2 = (tensors[name] for name in ("x", "w1", "w2"))
    if case.dtype == "fp4":
        pairs = torch.float4_e2m1fn_x2
        w1, w2, x = shuffled(w1.view(pairs)), shuffled(w2.view(pairs)), x.view(pairs)
        ordered = [
            call("aiter.utility.fp4_utils:e8m0_shuffle", scale=tensors[name].flatten(0, 1))()
            for name in ("scale_w1", "scale_w2")
        ]
        return _fused(
            tensors, quant_type.per_1x32, x=x, w1=w1, w2=w2, scales=(tensors["scale_x"], ordered[0], ordered[1])
        )
    wide = [tensors[name].unsqueeze(-1) for name in ("scale_x", "scale_w1", "scale_w2")]
    scales = (wide[0], wide[1], wide[2])
    return _fused(tensors, quant_type.per_Token, x=x, w1=shuffled(w1), w2=shuffled(w2), scales=scales)


@aiter_kernel(
    op="moe_blockscale",
    provider="aiter",
    dtypes=("fp8",),
    includes_allocation=True,
    detail=f"aiter.fused_moe.fused_moe with scales by 128: {BACKENDS}",
)
def moe_blockscale(case: Case, tensors: Tensors) -> Launch:
    quant_type = find("aiter.ops.enum:QuantType")
    scales = (tensors["scale_x"], tensors["scale_w1"], tensors["scale_w2"])
    return _fused(
        tensors,
        quant_type.per_1x128,
        x=tensors["x"],
        w1=shuffled(tensors["w1"]),
        w2=shuffled(tensors["w2"]),
        scales=scales,
    )
