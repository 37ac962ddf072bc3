"""Triton code of matrix products."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gemm(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    # Groups of GROUP tile rows keep the tiles of b that they share in L2.
    group = program // (GROUP * tiles_n)
    first = group * GROUP
    height = min(tiles_m - first, GROUP)
    inner = program % (GROUP * tiles_n)
    tile_m = first + inner % height
    tile_n = inner // height
    row = (tile_m * BM + tl.arange(0, BM)).to(tl.int64)
    column = (tile_n * BN + tl.arange(0, BN)).to(tl.int64)
    depth = tl.arange(0, BK)
    # Rows beyond the edge read row 0 instead of being masked; their results are not stored.
    from_a = a + tl.where(row < m, row, 0)[:, None] * k + depth[None, :]
    from_b = b + tl.where(column < n, column, 0)[None, :] * k + depth[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(k, BK)):
        left = k - step * BK
        left_tile = tl.load(from_a, mask=depth[None, :] < left, other=0.0)
        right_tile = tl.load(from_b, mask=depth[:, None] < left, other=0.0)
        total = tl.dot(left_tile, right_tile, total)
        from_a += BK
        from_b += BK
    target = out + row[:, None] * n + column[None, :]
    tl.store(target, total.to(out.dtype.element_ty), mask=(row[:, None] < m) & (column[None, :] < n))
