"""Shapes of attention and of what surrounds it: rotary embedding with the cache write, prefill, paged decode, MLA."""

from __future__ import annotations

from gate.model.shape import ArgValue

# The cache that the fused rotary embedding writes: pages of 16 tokens, positions below 8192, no scaling.
ROPE_BLOCK = 16
ROPE_POSITIONS = 8192


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
