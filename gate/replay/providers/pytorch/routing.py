"""PyTorch's operators around the experts of a mixture: choosing them, sorting by them, adding their outputs."""

from __future__ import annotations

from typing import Any

import torch

from gate.replay.op import Case, Tensors
from gate.replay.ops.moe_sorting import TOKEN_BITS
from gate.replay.provider import Launch
from gate.replay.providers.pytorch.common import FLOATS, HALVES, torch_kernel


@torch_kernel(op="moe_reduce", dtypes=FLOATS, detail="torch.sum(out=) over the middle axis")
def moe_reduce(case: Case, tensors: Tensors) -> Launch:
    x, out = tensors["x"], tensors["out"]

    def launch() -> None:
        torch.sum(x, 1, out=out)

    return launch


@torch_kernel(
    op="topk_gating_softmax",
    dtypes=FLOATS,
    detail="softmax, topk and division as separate operators",
    includes_allocation=True,
)
def topk_gating_softmax(case: Case, tensors: Tensors) -> Launch:
    logits, topk = tensors["logits"], case.dim("topk")

    def launch() -> Any:
        best, indices = torch.softmax(logits, -1, dtype=torch.float32).topk(topk, dim=-1)
        return {"weights": best / best.sum(dim=-1, keepdim=True), "indices": indices.int()}

    return launch


@torch_kernel(
    op="moe_sorting",
    dtypes=HALVES,
    detail="sort, counts, prefix sum and scatter as separate operators",
    includes_allocation=True,
)
def moe_sorting(case: Case, tensors: Tensors) -> Launch:
    ids, weights = tensors["topk_ids"], tensors["topk_weights"]
    tokens, topk = case.dim("num_tokens"), case.dim("topk")
    experts, unit = case.dim("num_experts"), case.dim("unit_size")
    packed = torch.arange(tokens * topk, device=ids.device)
    packed = ((packed % topk) << TOKEN_BITS | packed // topk).int()
    ranks = torch.arange(tokens * topk, device=ids.device)
    tiles = torch.arange(tensors["sorted_experts"].numel(), device=ids.device)
    bins = torch.arange(experts, device=ids.device)

    def launch() -> None:
        ordered, order = torch.sort(ids.flatten(), stable=True)
        starts = torch.searchsorted(ordered, bins)
        counts = torch.searchsorted(ordered, bins, right=True) - starts
        ends = ((counts + unit - 1) // unit).cumsum(0)
        place = (ends * unit - (counts + unit - 1) // unit * unit - starts)[ordered.long()] + ranks
        tensors["sorted_ids"].fill_(topk << TOKEN_BITS | tokens).scatter_(0, place, packed[order])
        tensors["sorted_weights"].zero_().scatter_(0, place, weights.flatten()[order])
        tensors["sorted_experts"].copy_(torch.searchsorted(ends, tiles, right=True))
        tensors["num_valid"][:1].copy_(ends[-1:] * unit)
        tensors["num_valid"][1:].fill_(tokens)
        tensors["moe_buf"].zero_()

    return launch
