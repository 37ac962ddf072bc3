"""flash_attn: softmax(q k^T / sqrt(dim_qk)) v for whole sequences, causal or not, with grouped heads and windows."""

from __future__ import annotations

from gate.replay import attention
from gate.replay.device import Memory
from gate.replay.op import ELEMENT_BYTES, Case, Op, Spec, Tensors


def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
    batch, keys, heads = case.dim("batch"), case.dim("seq_k"), case.dim("kv_heads")
    q = memory.stack(copies, (batch, case.dim("seq_q"), case.dim("heads"), case.dim("dim_qk")), case.dtype)
    k = memory.stack(copies, (batch, keys, heads, case.dim("dim_qk")), case.dtype)
    v = memory.stack(copies, (batch, keys, heads, case.dim("dim_v")), case.dtype)
    scale = attention.query_scale(case)
    return {"q": memory.normal(q, seed, scale), "k": memory.normal(k, seed + 1), "v": memory.normal(v, seed + 2)}


def outputs(case: Case) -> dict[str, Spec]:
    shape = (case.dim("batch"), case.dim("seq_q"), case.dim("heads"), case.dim("dim_v"))
    return {"out": Spec(shape=shape, dtype=attention.result_dtype(case))}


def reference(case: Case, tensors: Tensors) -> Tensors:
    window = int(case.args["window"]) if case.args.get("window") else None
    causal = bool(case.args.get("causal", True))
    triples = zip(tensors["q"], tensors["k"], tensors["v"], strict=True)
    return {"out": attention.stacked([attention.attend(q, k, v, causal=causal, window=window) for q, k, v in triples])}


def bytes_moved(case: Case) -> float:
    batch, heads, groups = case.dim("batch"), case.dim("heads"), case.dim("kv_heads")
    asked = case.dim("seq_q") * heads * case.dim("dim_qk") * case.element_bytes
    read = case.dim("seq_k") * groups * (case.dim("dim_qk") + case.dim("dim_v")) * case.element_bytes
    written = case.dim("seq_q") * heads * case.dim("dim_v") * ELEMENT_BYTES[attention.result_dtype(case)]
    return batch * (asked + read + written)


OP = Op(
    name="flash_attn",
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    bytes_moved=bytes_moved,
    flops=attention.flops,
    tolerances=attention.TOLERANCES,
    layout="q, k, v, out row-major (batch, seq, heads, dim); the softmax scale is 1 / sqrt(dim_qk)",
    refresh=("q", "k", "v"),
)
