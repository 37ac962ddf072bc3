"""mla_decode: one query per sequence over a paged latent cache; the values are the first dim_v of each key."""

from __future__ import annotations

from typing import Any

from gate.replay import attention
from gate.replay.device import Memory
from gate.replay.op import ELEMENT_BYTES, Case, Op, Spec, Tensors


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    batch, keys, depth = case.dim("batch"), case.dim("seq_k"), case.dim("dim_qk")
    q = memory.stack(copies, (batch, case.dim("heads"), depth), case.dtype)
    cache = memory.stack(copies, (batch * keys, 1, 1, depth), case.dtype)
    indptr = memory.integers(memory.stack(copies, (batch + 1,), "int32"), seed, keys, keys + 1)
    memory.copy(indptr, indptr.cumsum(-1) - keys)
    indices = memory.stack(copies, (batch * keys,), "int32")
    memory.copy(indices, memory.integers(indices, seed + 3, 0, 1 << 30).argsort(-1))
    return {
        "q": memory.normal(q, seed, attention.query_scale(case)),
        "cache": memory.normal(cache, seed + 1),
        "kv_indptr": indptr,
        "kv_indices": indices,
    }


def outputs(case: Case) -> dict[str, Spec]:
    shape = (case.dim("batch"), case.dim("heads"), case.dim("dim_v"))
    return {"out": Spec(shape=shape, dtype=attention.result_dtype(case))}


def _one(case: Case, q: Any, cache: Any, indices: Any) -> Any:
    import torch

    rows = indices.long().view(case.dim("batch"), case.dim("seq_k"))
    results = []
    for part in attention.gathered_parts(case, 1):
        key = cache[rows[part]].flatten(2)[:, :, None]
        value = key[..., : case.dim("dim_v")]
        results.append(attention.attend(q[part, None], key, value, causal=False, window=None)[:, 0])
    return torch.cat(results)


def reference(case: Case, tensors: Tensors) -> Tensors:
    triples = zip(tensors["q"], tensors["cache"], tensors["kv_indices"], strict=True)
    return {"out": attention.stacked([_one(case, *triple) for triple in triples])}


def bytes_moved(case: Case) -> float:
    batch, keys, depth = case.dim("batch"), case.dim("seq_k"), case.dim("dim_qk")
    read = batch * depth * (case.dim("heads") + keys) * case.element_bytes + 4 * batch * keys
    return read + batch * case.dim("heads") * case.dim("dim_v") * ELEMENT_BYTES[attention.result_dtype(case)]


OP = Op(
    name="mla_decode",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=attention.flops,
    tolerances=attention.TOLERANCES,
    layout=(
        "q (batch, heads, 576), cache (tokens, 1, 1, 576) with pages of one token, kv_indptr (batch + 1) and "
        "kv_indices (tokens) i32, out (batch, heads, 512); the softmax scale is 1 / sqrt(576)"
    ),
    refresh=("q", "cache"),
)
