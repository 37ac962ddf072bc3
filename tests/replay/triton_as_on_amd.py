"""The Triton matrix products with the tiles and the two-kernel split of K that an AMD GPU gets."""

from __future__ import annotations

from gate.replay.providers.triton import tiles
from gate.replay.providers.triton.gemm import batched_gemm, blockscale_preshuffle_gemm, preshuffle_gemm

__all__ = ["batched_gemm", "blockscale_preshuffle_gemm", "preshuffle_gemm"]

# The interpreter calls itself neither AMD nor NVIDIA.
tiles.on_amd = lambda: True
