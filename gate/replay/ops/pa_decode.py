"""pa_decode: one or a few queries per sequence over a paged cache of keys and values, with grouped heads."""

from __future__ import annotations

from typing import Any

from gate.replay import attention
from gate.replay.device import Memory
from gate.replay.op import ELEMENT_BYTES, Case, Op, Spec, Tensors

LANE = 16
KEY_SCALE, VALUE_SCALE = 0.25, 0.5


def pages_of(case: Case) -> int:
    """Pages of one sequence."""
    return -(-case.dim("seq_k") // case.dim("block_size"))


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    batch, block, groups, depth = case.dim("batch"), case.dim("block_size"), case.dim("kv_heads"), case.dim("dim_qk")
    pages = pages_of(case)
    q = memory.stack(copies, (batch, case.dim("seq_q"), case.dim("heads"), depth), attention.result_dtype(case))
    keys = memory.stack(copies, (batch * pages, groups, depth // LANE, block, LANE), case.dtype)
    values = memory.stack(copies, (batch * pages, groups, case.dim("dim_v"), block), case.dtype)
    tables = memory.stack(copies, (batch * pages,), "int32")
    memory.copy(tables, memory.integers(tables, seed + 3, 0, 1 << 30).argsort(-1))
    lengths = memory.integers(memory.stack(copies, (batch,), "int32"), seed, case.dim("seq_k"), case.dim("seq_k") + 1)
    # The spread of the queries makes up for the scale, so that the scores do not depend on it.
    scales = {"key_scale": KEY_SCALE, "value_scale": VALUE_SCALE}
    ones = {name: memory.stack(copies, (1,), "fp32") for name in scales}
    for name, tensor in ones.items():
        tensor.fill_(scales[name])
    return {
        "q": memory.normal(q, seed, attention.query_scale(case) / KEY_SCALE),
        "key_cache": memory.normal(keys, seed + 1),
        "value_cache": memory.normal(values, seed + 2),
        "block_tables": tables.unflatten(1, (batch, pages)),
        "context_lens": lengths,
        **ones,
    }


def outputs(case: Case) -> dict[str, Spec]:
    shape = (case.dim("batch"), case.dim("seq_q"), case.dim("heads"), case.dim("dim_v"))
    return {"out": Spec(shape=shape, dtype=attention.result_dtype(case))}


def gathered(key_cache: Any, value_cache: Any, table: Any, length: int) -> tuple[Any, Any]:
    """Keys (..., length, kv_heads, D) and values (..., length, kv_heads, D) of sequences with these page numbers."""
    key = key_cache[table.long()].movedim(-2, -4).flatten(-2)
    value = value_cache[table.long()].movedim(-1, -3)
    return key.flatten(-4, -3)[..., :length, :, :], value.flatten(-4, -3)[..., :length, :, :]


def _one(case: Case, tensors: Tensors) -> Any:
    import torch

    window = int(case.args["window"]) if case.args.get("window") else None
    results = []
    for part in attention.gathered_parts(case, case.dim("kv_heads")):
        tables = tensors["block_tables"][part]
        key, value = gathered(tensors["key_cache"], tensors["value_cache"], tables, case.dim("seq_k"))
        wide_key, wide_value = key.float() * tensors["key_scale"], value.float() * tensors["value_scale"]
        results.append(attention.attend(tensors["q"][part], wide_key, wide_value, causal=True, window=window))
    return torch.cat(results)


def reference(case: Case, tensors: Tensors) -> Tensors:
    copies = len(tensors["q"])
    return {
        "out": attention.stacked(
            [_one(case, {name: value[index] for name, value in tensors.items()}) for index in range(copies)]
        )
    }


def bytes_moved(case: Case) -> float:
    batch, width = case.dim("batch"), ELEMENT_BYTES[attention.result_dtype(case)]
    seen = min(case.dim("seq_k"), attention.reach(case) + case.dim("seq_q") - 1)
    cached = seen * case.dim("kv_heads") * (case.dim("dim_qk") + case.dim("dim_v")) * case.element_bytes
    own = case.dim("seq_q") * case.dim("heads") * (case.dim("dim_qk") + case.dim("dim_v")) * width
    return batch * (cached + own)


OP = Op(
    name="pa_decode",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=attention.flops,
    tolerances=attention.TOLERANCES,
    layout=(
        "q, out (batch, seq_q, heads, D), key_cache (pages, kv_heads, D / 16, block_size, 16), value_cache (pages, "
        "kv_heads, D, block_size), block_tables (batch, pages of a sequence) and context_lens (batch) i32, one f32 "
        "scale each for keys and values; the softmax scale is 1 / sqrt(D)"
    ),
    # AITER and FlyDSL keep the cache in orders of their own, which `prepare` makes.
    refresh=("q",),
)
