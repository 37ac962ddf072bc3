"""Triton kernels around the experts of a mixture, with the launch options that fit each shape."""

from __future__ import annotations

import torch
import triton

from gate.replay.op import Case, Tensors
from gate.replay.ops.moe_sorting import TOKEN_BITS, most_ids
from gate.replay.providers.triton.calls import Call, triton_kernel
from gate.replay.providers.triton.common import FLOATS, HALVES
from gate.replay.providers.triton.kernels import routing as kernels

MAX_EXPERTS = 4096
GATING_ELEMENTS = 2048
CLEAR_BLOCK = 1024
PAIR_BLOCK = 64
REDUCE_BLOCK = 1024


def _pow2(size: int) -> int:
    return int(triton.next_power_of_2(size))


def _experts_limit(case: Case) -> str | None:
    experts = case.dim("num_experts")
    return f"num_experts = {experts} is above {MAX_EXPERTS}" if experts > MAX_EXPERTS else None


@triton_kernel(op="moe_reduce", dtypes=FLOATS, detail="one block of model_dim a program, all of topk in registers")
def moe_reduce(case: Case, tensors: Tensors) -> Call:
    columns = case.dim("model_dim")
    block = min(_pow2(columns), REDUCE_BLOCK)
    return Call(
        function=kernels.moe_reduce,
        arguments=(tensors["x"], tensors["out"], columns),
        grid=(case.dim("num_tokens"), triton.cdiv(columns, block)),
        options={"TOPK": case.dim("topk"), "BLOCK": block, "num_warps": 2 if torch.version.hip else 4},
    )


@triton_kernel(
    op="topk_gating_softmax",
    dtypes=FLOATS,
    detail="the largest picked topk times, softmax of the chosen only",
    when=_experts_limit,
)
def topk_gating_softmax(case: Case, tensors: Tensors) -> Call:
    tokens, experts, topk = case.dim("num_tokens"), case.dim("num_experts"), case.dim("topk")
    block = _pow2(experts)
    # A few tokens share a program where they are many, so that a program has work for all its lanes.
    rows = max(1, min(GATING_ELEMENTS // block, _pow2(tokens) // 256))
    return Call(
        function=kernels.topk_gating_softmax,
        arguments=(tensors["logits"], tensors["weights"], tensors["indices"], tokens, experts),
        grid=(triton.cdiv(tokens, rows),),
        options={
            "TOPK": topk,
            "ROWS": rows,
            "BLOCK": block,
            "CHOICES": _pow2(topk),
            "num_warps": max(1, min(8, rows * block // 512)),
        },
    )


@triton_kernel(
    op="moe_sorting",
    dtypes=HALVES,
    detail="clear, count, then place with a prefix sum in every program",
    when=_experts_limit,
)
def moe_sorting(case: Case, tensors: Tensors) -> tuple[Call, ...]:
    tokens, experts, topk = case.dim("num_tokens"), case.dim("num_experts"), case.dim("topk")
    pairs, ids, elements = tokens * topk, most_ids(case), tokens * case.dim("model_dim")
    chosen, weights, made = tensors["topk_ids"], tensors["topk_weights"], tensors["sorted_ids"]
    # Pairs of each expert, and those of them that are placed.
    counts = torch.empty((2 * experts,), dtype=torch.int32, device=chosen.device)
    blocks = triton.cdiv(pairs, PAIR_BLOCK)
    clear = Call(
        function=kernels.sorting_clear,
        arguments=(
            *(counts, made, tensors["sorted_weights"], tensors["moe_buf"]),
            *(experts, ids, elements, topk << TOKEN_BITS | tokens),
        ),
        grid=(triton.cdiv(max(2 * experts, ids, elements), CLEAR_BLOCK),),
        options={"BLOCK": CLEAR_BLOCK},
        scratch=(counts,),
    )
    tile = {"BLOCK": PAIR_BLOCK}
    count = Call(function=kernels.sorting_count, arguments=(chosen, counts, pairs), grid=(blocks,), options=tile)
    place = Call(
        function=kernels.sorting_place,
        arguments=(
            *(chosen, weights, counts, made),
            *(tensors[name] for name in ("sorted_weights", "sorted_experts", "num_valid")),
            *(pairs, tokens, experts),
        ),
        grid=(max(blocks, experts),),
        options={
            "TOPK": topk,
            "UNIT": case.dim("unit_size"),
            "EXPERTS": _pow2(experts),
            "TILES": 64,
            "BLOCK": PAIR_BLOCK,
        },
    )
    return clear, count, place
