"""moe_sorting: the (token, slot) pairs of a routing grouped by expert, each group padded to whole tiles of a product.

The format is that of AITER's and Composable Kernel's sorting, which the fused products read: an id is
slot << 24 | token, a padding id is topk << 24 | num_tokens, and every tile of `unit_size` ids has one expert.
"""

from __future__ import annotations

from typing import Any

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, tolerances

WHY = "integers and copied weights: exact"
TOKEN_BITS = 24


def most_ids(case: Case) -> int:
    """Room for the ids: every expert may pad all but one of a tile."""
    used = case.dim("num_tokens") * case.dim("topk")
    return used + case.dim("num_experts") * case.dim("unit_size") - case.dim("topk")


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    tokens, experts, topk = case.dim("num_tokens"), case.dim("num_experts"), case.dim("topk")
    ids = memory.stack(copies, (tokens, topk), "int32")
    lots = memory.stack(1, (tokens, experts), "int32")
    for index in range(copies):
        # A token never goes to one expert twice: the first topk of a shuffle.
        memory.copy(ids[index], memory.integers(lots, seed + index, 0, 1 << 30)[0].argsort(-1)[:, :topk])
    weights = memory.normal(memory.stack(copies, (tokens, topk), "fp32"), seed + 1).abs_()
    return {"topk_ids": ids, "topk_weights": weights}


def outputs(case: Case) -> dict[str, Spec]:
    ids = most_ids(case)
    return {
        "sorted_ids": Spec(shape=(ids,), dtype="int32", partial=True),
        "sorted_weights": Spec(shape=(ids,), dtype="fp32", partial=True),
        "sorted_experts": Spec(shape=(-(-ids // case.dim("unit_size")),), dtype="int32", partial=True),
        "num_valid": Spec(shape=(2,), dtype="int32"),
        "moe_buf": Spec(shape=(case.dim("num_tokens"), case.dim("model_dim")), dtype=case.dtype),
    }


def reference(case: Case, tensors: Tensors) -> Tensors:
    ids, unit = tensors["topk_ids"].long(), case.dim("unit_size")
    flat = ids.flatten(1)
    counts = flat.new_zeros((len(flat), case.dim("num_experts"))).scatter_add_(1, flat, flat * 0 + 1)
    padded = ((counts + unit - 1) // unit * unit).sum(dim=-1)
    return {
        "expert_of": ids.float(),
        "weight_of": tensors["topk_weights"].float(),
        "valid": padded[:, None].float(),
        "entries": counts.sum(dim=-1, keepdim=True).float(),
        "largest_in_buffer": padded[:, None].float() * 0,
    }


def _placed(case: Case, slots: Any, values: Any) -> Any:
    """A (copies, num_tokens, topk) table of `values` at flat `slots`; the slot past the end takes what has no place."""
    size = case.dim("num_tokens") * case.dim("topk")
    table = values.new_full((len(values), size + 1), -1.0)
    return table.scatter_(1, slots, values)[:, :size].unflatten(1, (case.dim("num_tokens"), case.dim("topk")))


def observe(case: Case, tensors: Tensors, results: Tensors) -> Tensors:
    """Where every (token, slot) went and with what weight, the ids in use, and what is left in the zeroed buffer."""
    del tensors
    tokens, topk, unit = case.dim("num_tokens"), case.dim("topk"), case.dim("unit_size")
    packed = results["sorted_ids"].long()
    place = (packed * 0 + 1).cumsum(dim=-1) - 1
    used = place < results["num_valid"][:, :1].long()
    token, slot = packed & ((1 << TOKEN_BITS) - 1), packed >> TOKEN_BITS
    real = used & (token < tokens) & (slot >= 0) & (slot < topk)
    slots = (token * topk + slot) * real + tokens * topk * ~real
    experts = results["sorted_experts"].long().gather(1, place // unit)
    return {
        "expert_of": _placed(case, slots, experts.float()),
        "weight_of": _placed(case, slots, results["sorted_weights"].float()),
        "valid": results["num_valid"][:, :1].float(),
        "entries": real.sum(dim=-1, keepdim=True).float(),
        "largest_in_buffer": results["moe_buf"].flatten(1).abs().amax(dim=-1, keepdim=True).float(),
    }


def bytes_moved(case: Case) -> float:
    pairs, buffer = case.dim("num_tokens") * case.dim("topk"), case.dim("num_tokens") * case.dim("model_dim")
    return 16.0 * pairs + case.element_bytes * buffer


def flops(case: Case) -> float:
    return float(case.dim("num_tokens") * case.dim("topk"))


OP = Op(
    name="moe_sorting",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=flops,
    tolerances=tolerances(WHY, bf16=(0.0, 0.0), f16=(0.0, 0.0)),
    layout=(
        "topk_ids i32 and topk_weights f32 (num_tokens, topk); sorted_ids i32 and sorted_weights f32 (all ids, "
        "padded), sorted_experts i32 (tiles), num_valid i32 (ids in use, num_tokens), moe_buf (num_tokens, "
        "model_dim) set to zero, the output that the products will add to"
    ),
    refresh=("topk_ids", "topk_weights"),
    observe=observe,
)
