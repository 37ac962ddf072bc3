"""PyTorch's rotary embedding with its write into the paged cache, as separate operators."""

from __future__ import annotations

from typing import Any

import torch

from gate.replay.op import Case, Tensors
from gate.replay.ops.fused_rope_cache import rotated
from gate.replay.provider import Launch
from gate.replay.providers.pytorch.common import HALVES, torch_kernel


def _write(case: Case, cache: Any, slots: Any, rows: Any) -> None:
    """Puts rows (T, H, D) into their slots of a cache in either layout."""
    block = case.dim("block_size")
    page, place = slots // block, slots % block
    if case.args.get("flash_layout", True):
        cache[page, place] = rows
    elif cache.dim() == 5:
        cache[page, :, :, place] = rows.unflatten(-1, (cache.shape[2], cache.shape[4]))
    else:
        cache[page, :, :, place] = rows


def _quantised(rows: Any, scale: Any, cache: Any) -> Any:
    return rows if scale is None else (rows.float() / scale).to(cache.dtype).view(torch.uint8)


@torch_kernel(
    op="fused_rope_cache",
    dtypes=HALVES,
    detail="index_select, products, cat and index_put as separate operators",
    includes_allocation=True,
)
def fused_rope_cache(case: Case, tensors: Tensors) -> Launch:
    q, k, v, slots = (tensors[name] for name in ("q", "k", "v", "slots"))
    caches = [
        (tensors[name].view(torch.uint8) if case.args.get("apply_scale") else tensors[name], tensors[name])
        for name in ("key_cache", "value_cache")
    ]

    def launch() -> Tensors:
        cos, sin = (tensors[name].index_select(0, tensors["positions"]).unsqueeze(-2) for name in ("cos", "sin"))
        q_out, k_out = rotated(case, q, cos, sin), rotated(case, k, cos, sin)
        at = slots.long()
        for rows, scale, (raw, cache) in zip((k_out, v), ("k_scale", "v_scale"), caches, strict=True):
            _write(case, raw, at, _quantised(rows, tensors.get(scale), cache))
        return {"q_out": q_out, "k_out": k_out}

    return launch
