"""PyTorch's attention: scaled_dot_product_attention, after a gather where the cache is paged."""

from __future__ import annotations

import math
from typing import Any

import torch

from gate.replay.op import Case, Tensors
from gate.replay.ops import pa_decode as paged
from gate.replay.provider import Launch
from gate.replay.providers.pytorch.common import HALVES, own_output, torch_kernel

attend = torch.nn.functional.scaled_dot_product_attention


def _hidden(case: Case, device: Any) -> Any:
    """The mask of what a query sees, where a flag cannot say it: (seq_q, seq_k), True where visible."""
    queries, keys = case.dim("seq_q"), case.dim("seq_k")
    window = int(case.args.get("window") or keys)
    own = torch.arange(queries, device=device)[:, None] + (keys - queries)
    place = torch.arange(keys, device=device)[None, :]
    return (place <= own) & (place > own - window)


@torch_kernel(
    op="flash_attn",
    dtypes=HALVES,
    detail="scaled_dot_product_attention; torch chooses among its fused kernels (opaque), a window goes in as a mask",
    includes_allocation=True,
)
def flash_attn(case: Case, tensors: Tensors) -> Launch:
    q, k, v = (tensors[name].transpose(1, 2) for name in ("q", "k", "v"))
    causal, grouped = bool(case.args.get("causal", True)), case.dim("heads") != case.dim("kv_heads")
    mask = _hidden(case, q.device) if causal and case.args.get("window") else None
    flag = causal and mask is None

    def call() -> Any:
        return attend(q, k, v, attn_mask=mask, is_causal=flag, enable_gqa=grouped).transpose(1, 2)

    return own_output("out", call)


@torch_kernel(
    op="mla_decode",
    dtypes=(*HALVES, "fp8"),
    detail="gather, two batched products in bf16 and a softmax as separate operators",
    includes_allocation=True,
    includes_layout_conversion=True,
)
def mla_decode(case: Case, tensors: Tensors) -> Launch:
    q, cache, indices = tensors["q"], tensors["cache"], tensors["kv_indices"]
    batch, keys, width = case.dim("batch"), case.dim("seq_k"), case.dim("dim_v")
    wide = torch.bfloat16 if case.dtype == "fp8" else q.dtype
    rows = indices.long().view(batch, keys)
    scale = 1.0 / math.sqrt(case.dim("dim_qk"))

    def call() -> Any:
        key = cache.flatten(1)[rows].to(wide)
        weights = (torch.bmm(q.to(wide), key.transpose(1, 2)).float() * scale).softmax(dim=-1)
        return torch.bmm(weights.to(wide), key[..., :width])

    return own_output("out", call)


@torch_kernel(
    op="pa_decode",
    dtypes=(*HALVES, "fp8"),
    detail="gather of the pages into bf16, then scaled_dot_product_attention (opaque choice of kernel)",
    includes_allocation=True,
    includes_layout_conversion=True,
)
def pa_decode(case: Case, tensors: Tensors) -> Launch:
    q, length = tensors["q"].transpose(1, 2), case.dim("seq_k")
    mask = _hidden(case, q.device) if case.args.get("window") or case.dim("seq_q") > 1 else None

    def call() -> Any:
        key, value = paged.gathered(tensors["key_cache"], tensors["value_cache"], tensors["block_tables"], length)
        wide_key = (key.to(q.dtype) * tensors["key_scale"].to(q.dtype)).transpose(1, 2)
        wide_value = (value.to(q.dtype) * tensors["value_scale"].to(q.dtype)).transpose(1, 2)
        return attend(q, wide_key, wide_value, attn_mask=mask, enable_gqa=True).transpose(1, 2)

    return own_output("out", call)
