"""The bindings to AITER and one small case for each op, shared by the test and the bench of the host code."""

from __future__ import annotations

import importlib
from typing import Any

from gate.replay.op import load_op
from gate.replay.provider import KernelAdapter, kernels_of

NAMES = ("aiter", "aiter_triton", "aiter_ck", "aiter_asm", "gluon")
ROWS = {"M": 4, "N": 64}
PRODUCT = {"M": 4, "N": 256, "K": 256}
EXPERTS = {"M": 4, "Dim1": 256, "Dim2": 512, "E": 4, "TopK": 2}
HEADS = {"batch": 2, "seq_q": 1, "heads": 16, "kv_heads": 2, "causal": True}
SHAPES: dict[str, dict[str, Any]] = {
    "vec_add": {"N": 64},
    "gemm": PRODUCT,
    "preshuffle_gemm": PRODUCT,
    "fp8_gemm_rowscale": PRODUCT,
    "blockscale_preshuffle_gemm": PRODUCT,
    "batched_gemm": {**PRODUCT, "B": 2},
    "flash_attn": {**HEADS, "seq_q": 32, "seq_k": 32, "dim_qk": 64, "dim_v": 64},
    "pa_decode": {**HEADS, "seq_k": 32, "dim_qk": 128, "dim_v": 128, "block_size": 16},
    "mla_decode": {**HEADS, "kv_heads": 1, "seq_k": 32, "dim_qk": 576, "dim_v": 512},
    "fused_rope_cache": {"seq_len": 4, "num_heads": 4, "num_kv_heads": 2, "head_dim": 64, "max_pos": 64}
    | {"block_size": 16, "flash_layout": True, "apply_scale": False, "reuse_freqs_front_part": True},
    "topk_gating_softmax": {"num_tokens": 4, "num_experts": 128, "topk": 2},
    "moe_reduce": {"num_tokens": 4, "topk": 2, "model_dim": 64},
    "moe_sorting": {"num_tokens": 4, "num_experts": 8, "topk": 2, "unit_size": 32, "model_dim": 64},
    "moe_gemm": EXPERTS,
    "moe_blockscale": EXPERTS,
}


def kernels(names: tuple[str, ...] = NAMES) -> list[tuple[str, KernelAdapter, str]]:
    """Provider, kernel and dtype of every binding; a dtype that is spelt in two ways once."""
    return [
        (name, adapter, dtype)
        for name in names
        for adapter in kernels_of(importlib.import_module(f"gate.replay.providers.{name}")).values()
        for dtype in adapter.dtypes
        if dtype in load_op(adapter.op_type).tolerances and dtype not in ("fp16", "fp32")
    ]
