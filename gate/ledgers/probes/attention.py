"""Probes of attention.

FlyDSL's dense attention changes kernel at 256 tokens (192 from a batch of 8 on), takes a light tile while its
blocks are fewer than the 256 compute units, and a tile of 256 rows from 32 heads and 4096 tokens on. Its paged
decode splits the context by 256 and knows pages of 16, 64 and 1024; MLA decode takes 64 cached tokens a step and
128 heads in 8 bits. The fused rotary kernel knows the neox style alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gate.ledgers.ops.attention import attention_args, rope_args
from gate.ledgers.ops.point import Cell


def flash_attn() -> Iterator[Cell]:
    """Prefill attention."""

    def cell(
        batch: int, seq: int, notes: str, *, heads: int = 8, dim: int = 128, dtype: str = "bf16", causal: bool = True
    ) -> Cell:
        args = attention_args(
            batch=batch, seq_q=seq, seq_k=seq, heads=heads, kv_heads=1, dim_qk=dim, dim_v=dim, causal=causal
        )
        return Cell(dtype=dtype, args=args, notes=notes)

    for seq in (255, 256, 257):
        yield cell(1, seq, "around the switch of kernels")
    for seq in (191, 192):
        yield cell(8, seq, "around the switch of kernels for large batches")
    yield cell(1, 4095, "below the tile of 256 rows", heads=32)
    yield cell(1, 4096, "at the tile of 256 rows", heads=32)
    yield cell(1, 1, "one token")
    yield cell(1, 65536, "long")
    yield cell(1, 2048, "every token sees every other", causal=False)
    for dim in (64, 96, 192, 256):
        yield cell(1, 2048, "head width variant", dim=dim)
    for dtype in ("f16", "fp8"):
        yield cell(1, 2048, "dtype variant", dtype=dtype)


def pa_decode() -> Iterator[Cell]:
    """Paged decode."""

    def cell(
        batch: int, context: int, notes: str, *, page: int = 16, dim: int = 128, seq_q: int = 1, dtype: str = "fp8"
    ) -> Cell:
        args = attention_args(batch=batch, seq_q=seq_q, seq_k=context, heads=8, kv_heads=1, dim_qk=dim, dim_v=dim)
        return Cell(dtype=dtype, args={**args, "block_size": page}, notes=notes)

    for context in (1, 255, 256, 257):
        yield cell(3, context, "around one split of the context")
    for page in (64, 1024):
        yield cell(81, 1027, "page variant", page=page)
    for seq_q in (2, 4):
        yield cell(3, 1027, "several new tokens a request", seq_q=seq_q)
    for dim in (64, 256):
        yield cell(81, 1027, "head width variant", dim=dim)
    yield cell(1, 131072, "one long context")
    yield cell(512, 1024, "many requests")
    yield cell(81, 1027, "dtype variant", dtype="bf16")


def mla_decode() -> Iterator[Cell]:
    """MLA decode: around its step of 64 cached tokens, and odd batches."""

    def cell(batch: int, context: int, notes: str, *, heads: int = 128, dtype: str = "fp8") -> Cell:
        args = attention_args(batch=batch, seq_q=1, seq_k=context, heads=heads, kv_heads=1, dim_qk=576, dim_v=512)
        return Cell(dtype=dtype, args=args, notes=notes)

    for context in (1, 63, 64, 65, 128):
        yield cell(1, context, "around one step of the context")
    yield cell(33, 2333, "odd batch and context")
    yield cell(1, 131072, "one long context")
    yield cell(4, 2048, "fewer heads than the native kernel takes", heads=16)
    yield cell(4, 2048, "dtype variant", dtype="bf16")


def fused_rope_cache() -> Iterator[Cell]:
    """Rotary embedding with the cache write."""

    def cell(
        tokens: int, notes: str, *, dim: int = 128, style: str = "neox", dtype: str = "bf16", **more: object
    ) -> Cell:
        args = rope_args(tokens=tokens, heads=8, kv_heads=1, head_dim=dim, style=style)
        return Cell(dtype=dtype, args={**args, **more}, notes=notes)  # type: ignore[dict-item]

    for dim in (64, 96, 256):
        yield cell(128, "head width variant", dim=dim)
    yield cell(128, "interleaved rotation", style="gptj")
    yield cell(128, "64-bit positions", pos_dtype="i64")
    yield cell(128, "packed cache", flash_layout=False)
    yield cell(128, "scaled cache", apply_scale=True)
    yield cell(127, "odd number of tokens")
    yield cell(32768, "many tokens")
    yield cell(128, "dtype variant", dtype="f16")


ATTENTION_PROBES: dict[str, Callable[[], Iterator[Cell]]] = {
    "flash_attn": flash_attn,
    "fused_rope_cache": fused_rope_cache,
    "mla_decode": mla_decode,
    "pa_decode": pa_decode,
}
