"""Shapes of attention and of what surrounds it: rotary embedding with the cache write, prefill, paged decode, MLA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gate.ledgers.facts import Model
from gate.ledgers.ops.point import Cell, Point, shard
from gate.model.shape import ArgValue

# The cache that the fused rotary embedding writes: pages of 16 tokens, positions below 8192, no scaling.
ROPE_BLOCK = 16
ROPE_POSITIONS = 8192
# Pages of the key/value cache in paged decode, in tokens.
PAGE = 16


def rope_args(*, tokens: int, heads: int, kv_heads: int, head_dim: int, style: str) -> dict[str, ArgValue]:
    """Arguments of the fused rotary embedding and cache write, for one rank's heads."""
    return {
        "seq_len": tokens,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": head_dim,
        "rotate_style": style,
        "two_inputs": True,
        "positions": True,
        "pos_dtype": "i32",
        "block_size": ROPE_BLOCK,
        "max_pos": ROPE_POSITIONS,
        "flash_layout": True,
        "reuse_freqs_front_part": True,
        "apply_scale": False,
    }


def attention_args(
    *, batch: int, seq_q: int, seq_k: int, heads: int, kv_heads: int, dim_qk: int, dim_v: int, causal: bool = True
) -> dict[str, ArgValue]:
    """Arguments of attention for one rank's heads; lengths in tokens a request, `seq_k` counts the cached ones."""
    return {
        "batch": batch,
        "seq_q": seq_q,
        "seq_k": seq_k,
        "heads": heads,
        "kv_heads": kv_heads,
        "dim_qk": dim_qk,
        "dim_v": dim_v,
        "causal": causal,
    }


def fused_rope_cache(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """Rotation of queries and keys and the write into the paged cache; MLA rotates inside its own kernels."""
    if model.rope == "none" or model.mla is not None:
        return
    args = rope_args(
        tokens=at.tokens,
        heads=shard(model.heads, at.tp),
        kv_heads=shard(model.kv_heads, at.tp),
        head_dim=model.head_dim,
        style=model.rope,
    )
    yield Cell(dtype=dtype, args=args, notes=at.phase)


def _windowed(model: Model) -> Mapping[str, ArgValue]:
    return {} if model.window is None else {"window": model.window}


def flash_attn(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """Attention of new tokens over themselves and what is cached. MLA expands its latents into plain heads here."""
    if at.phase != "prefill":
        return
    mla = model.mla
    kv_heads = shard(model.heads if mla is not None else model.kv_heads, at.tp)
    seq_q = max(at.tokens // at.batch, 1)
    args = attention_args(
        batch=at.batch,
        seq_q=seq_q,
        seq_k=seq_q + (at.context or 0),
        heads=shard(model.heads, at.tp),
        kv_heads=kv_heads,
        dim_qk=model.head_dim,
        dim_v=model.head_dim if mla is None else mla.v,
        causal=model.causal,
    )
    yield Cell(dtype=dtype, args={**args, **_windowed(model)}, notes="prefill")


def pa_decode(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """One new token a request over its paged cache; nothing for MLA, or where no context is known."""
    if at.phase != "decode" or at.context is None or model.mla is not None or not model.causal:
        return
    args = attention_args(
        batch=at.tokens,
        seq_q=1,
        seq_k=at.context,
        heads=shard(model.heads, at.tp),
        kv_heads=shard(model.kv_heads, at.tp),
        dim_qk=model.head_dim,
        dim_v=model.head_dim,
    )
    yield Cell(dtype=dtype, args={**args, "block_size": PAGE, **_windowed(model)}, notes="decode")


def mla_decode(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """MLA's absorbed decode: all query heads over one cached latent of kv_lora + rope elements a token."""
    if at.phase != "decode" or at.context is None or model.mla is None:
        return
    args = attention_args(
        batch=at.tokens,
        seq_q=1,
        seq_k=at.context,
        heads=shard(model.heads, at.tp),
        kv_heads=1,
        dim_qk=model.mla.kv_lora + model.mla.rope,
        dim_v=model.mla.kv_lora,
    )
    yield Cell(dtype=dtype, args=args, notes="decode")
