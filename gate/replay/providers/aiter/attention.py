"""AITER's compiled attention: flash attention for whole sequences, and decoding over a paged cache."""

from __future__ import annotations

from typing import Any

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import HALVES, aiter_kernel, own_output, writes

# What paged_attention_v1 splits a context by, and what one 16-byte load of the cache holds.
PARTITION = 256


def scale_of(case: Case) -> float:
    """The softmax scale of the attention ops."""
    return float(case.dim("dim_qk") ** -0.5)


def window_of(case: Case) -> tuple[int, int]:
    """Keys to the left and to the right that a query sees beside its own; -1 is no limit.

    Without a window both are -1, causal or not: AITER leaves its fastest kernels at anything else.
    """
    window = case.args.get("window")
    if not window:
        return -1, -1
    return int(window) - 1, 0 if case.args.get("causal", True) else -1


def _flash(case: Case) -> str | None:
    queries, keys = case.dim("seq_q"), case.dim("seq_k")
    if case.args.get("causal", True) and queries > keys:
        return f"causal attention with seq_q = {queries} and seq_k = {keys} has rows without keys"
    return None


@aiter_kernel(
    op="flash_attn",
    provider="aiter",
    dtypes=HALVES,
    when=_flash,
    includes_allocation=True,
    detail="aiter.flash_attn_func: Composable Kernel or assembly by shape, AITER's choice (opaque)",
)
def flash_attn(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.mha:flash_attn_func",
        q=tensors["q"],
        k=tensors["k"],
        v=tensors["v"],
        softmax_scale=scale_of(case),
        causal=bool(case.args.get("causal", True)),
        window_size=(*window_of(case), 0),
    )
    return own_output("out", made)


def token_major(cache: Any, *, keys: bool) -> Any:
    """A paged cache as (pages, kv_heads, block_size, D); `keys` says which of the op's two layouts it has."""
    return (cache.movedim(2, 3).flatten(3) if keys else cache.movedim(2, 3)).contiguous()


def _paged(case: Case) -> str | None:
    if case.args.get("window"):
        return "with a sliding window AITER's paged decode counts keys otherwise than this op"
    if case.dim("seq_q") != 1:
        return f"seq_q = {case.dim('seq_q')}: aiter.paged_attention_v1 is bound for one query a sequence"
    block, width = case.dim("block_size"), case.dim("dim_qk")
    if PARTITION % block:
        return f"block_size = {block}: the partition of {PARTITION} keys must hold whole pages"
    if width not in (64, 128):
        return f"head size {width}: the kernel is built for 64 and 128"
    return None


@aiter_kernel(
    op="pa_decode",
    provider="aiter",
    dtypes=("bf16", "f16", "fp8"),
    when=_paged,
    detail=f"aiter.paged_attention_v1, HIP, partitions of {PARTITION} keys; cache laid out as (pages, kv_heads, "
    "block_size, D) beforehand",
)
def pa_decode(case: Case, tensors: Tensors) -> Launch:
    import torch

    q, out = tensors["q"].flatten(0, 1), tensors["out"].flatten(0, 1)
    rows = case.dim("batch") * case.dim("heads") * -(-case.dim("seq_k") // PARTITION)
    workspace = torch.empty(rows * (case.dim("dim_v") * q.element_size() + 8), dtype=torch.uint8, device=q.device)
    narrow = case.dtype == "fp8"
    made = call(
        "aiter.ops.attention:paged_attention_v1",
        out=out,
        workspace_buffer=workspace,
        query=q,
        key_cache=token_major(tensors["key_cache"], keys=True),
        value_cache=token_major(tensors["value_cache"], keys=False),
        scale=scale_of(case),
        block_tables=tensors["block_tables"],
        cu_query_lens=None,
        context_lens=tensors["context_lens"],
        max_context_len=case.dim("seq_k"),
        alibi_slopes=None,
        kv_cache_dtype="fp8" if narrow else "auto",
        kv_cache_layout="HND",
        logits_soft_cap=0.0,
        k_scale=tensors["key_scale"],
        v_scale=tensors["value_scale"],
        fp8_out_scale=None,
        partition_size=PARTITION,
    )
    return writes(made)
