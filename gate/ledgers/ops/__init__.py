"""The ops whose shapes follow from a model's dimensions and a point; one entry per op."""

from __future__ import annotations

from collections.abc import Mapping

from gate.ledgers.ops import attention, gemms, moe, norms
from gate.ledgers.ops.point import Derive

# What an op is measured in where nothing else is said; 16-bit floats otherwise.
NARROW = {
    "blockscale_preshuffle_gemm": "fp8",
    "fp8_gemm_rowscale": "fp8",
    "mla_decode": "fp8",
    "moe_blockscale": "fp8",
    "moe_gemm": "fp8",
    "pa_decode": "fp8",
    "preshuffle_gemm": "fp8",
}


def usual_dtype(op: str) -> str:
    """The dtype an op is measured in unless told otherwise."""
    return NARROW.get(op, "bf16")


DERIVE: Mapping[str, Derive] = {
    **norms.STREAMS,
    "batched_gemm": gemms.batched_gemm,
    "blockscale_preshuffle_gemm": gemms.quantised_gemm,
    "flash_attn": attention.flash_attn,
    "fp8_gemm_rowscale": gemms.quantised_gemm,
    "fused_rope_cache": attention.fused_rope_cache,
    "gemm": gemms.gemm,
    "mla_decode": attention.mla_decode,
    "moe_blockscale": moe.moe_gemm,
    "moe_gemm": moe.moe_gemm,
    "moe_reduce": moe.moe_reduce,
    "moe_sorting": moe.moe_sorting,
    "pa_decode": attention.pa_decode,
    "preshuffle_gemm": gemms.quantised_gemm,
    "quant": norms.quant,
    "rmsnorm": norms.rmsnorm,
    "softmax": norms.softmax,
    "topk_gating_softmax": moe.topk_gating_softmax,
    "vec_add": norms.vec_add,
}
