"""Triton code of matrix products, of narrow operands too, and of mixtures of experts.

Forms of a: `plain`, `rows` (a scale a row, applied at the end), `grouped` (an fp32 scale for each GA of a row), `mx8`
and `mx4` (e8m0 for each 32), `wide` (16 bits beside mx4 weights). Forms of b: `plain`, `blocks` (128 by 128), `mx4`.
"""

# mypy: ignore-errors
# fmt: off
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile(program, m, n, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Groups of GROUP tile rows keep the tiles of b that they share in L2."""
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    group = program // (GROUP * tiles_n)
    first = group * GROUP
    height = min(tiles_m - first, GROUP)
    inner = program % (GROUP * tiles_n)
    return first + inner % height, inner // height


@triton.jit
def gemm(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    tile_m, tile_n = _tile(tl.program_id(0), m, n, BM, BN, GROUP)
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


@triton.jit
def gemm_tma(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """gemm with Hopper's bulk copies: a (BM, BK), b (BN, BK) and out (BM, BN) are tensor descriptors."""
    tiles = tl.cdiv(m, BM) * tl.cdiv(n, BN)
    for program in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        tile_m, tile_n = _tile(program, m, n, BM, BN, GROUP)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(tl.cdiv(k, BK)):
            left = a.load([tile_m * BM, step * BK])
            total = tl.dot(left, b.load([tile_n * BN, step * BK]).T, total)
        out.store([tile_m * BM, tile_n * BN], total.to(out.dtype))


@triton.jit
def _zeros(like, BM: tl.constexpr, BN: tl.constexpr):
    """Where products of such operands are added up: whole numbers for int8."""
    if like.dtype.element_ty == tl.int8:
        zeros = tl.zeros((BM, BN), dtype=tl.int32)
    else:
        zeros = tl.zeros((BM, BN), dtype=tl.float32)
    return zeros


@triton.jit
def _e2m1(code, power):
    """bf16 values of 4-bit codes times 2^(power - 127): exponent and mantissa moved to where bf16 has them."""
    size = (code & 7).to(tl.uint16)
    # 0.5 is the one code without its leading bit, 0 the one without an exponent; 126 - 127 is the -1.
    bits = (power << 7) - 128 + tl.where(size < 2, 0, size << 6)
    bits = tl.where(size == 0, 0, bits) | ((code & 8).to(tl.uint16) << 12)
    return bits.to(tl.uint16).to(tl.bfloat16, bitcast=True)


@triton.jit
def _spread(scale, ROWS: tl.constexpr, GROUPS: tl.constexpr, EACH: tl.constexpr):
    """Scales (ROWS, GROUPS) as 16-bit integers, each EACH times in its row."""
    return tl.broadcast_to(scale.to(tl.uint16)[:, :, None], (ROWS, GROUPS, EACH)).reshape(ROWS, GROUPS * EACH)


@triton.jit
def _mx4(rows, scales, at, k, ROWS: tl.constexpr, BK: tl.constexpr):
    """Packed codes (ROWS, BK / 2) of rows from `at` on, and their scales (ROWS, BK / 32); zeros beyond k."""
    byte, group = at // 2 + tl.arange(0, BK // 2), at // 32 + tl.arange(0, BK // 32)
    packed = tl.load(rows[:, None] + byte[None, :], mask=byte[None, :] < k // 2, other=0)
    return packed, tl.load(scales[:, None] + group[None, :], mask=group[None, :] < tl.cdiv(k, 32), other=127)


@triton.jit
def _halves(packed, scale, ROWS: tl.constexpr, BK: tl.constexpr):
    power = _spread(scale, ROWS, BK // 32, 16)
    return _e2m1(packed & 15, power), _e2m1(packed >> 4, power)


@triton.jit
def _mx_step(
    total, a, b, scale_a, scale_b, at, k,
    A: tl.constexpr, NATIVE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """One step of _step with mx4 weights; the even and the odd values of K are two products where none is NATIVE."""
    right, right_scale = _mx4(b, scale_b, at, k, BN, BK)
    depth, group = at + tl.arange(0, BK), at // 32 + tl.arange(0, BK // 32)
    if A == "mx4":
        left, left_scale = _mx4(a, scale_a, at, k, BM, BK)
    else:
        left = tl.load(a[:, None] + depth[None, :], mask=depth[None, :] < k, other=0.0)
    if A == "mx8":
        inside = group[None, :] < tl.cdiv(k, 32)
        left_scale = tl.load(scale_a[:, None] + group[None, :], mask=inside, other=127)
    # Triton compiles what follows a return, so every way has its else.
    if NATIVE:
        if A == "mx4":
            total = tl.dot_scaled(left, left_scale, "e2m1", right.T, right_scale, "e2m1", total)
        elif A == "mx8":
            total = tl.dot_scaled(left, left_scale, "e4m3", right.T, right_scale, "e2m1", total)
        else:
            total = tl.dot_scaled(left, None, "bf16", right.T, right_scale, "e2m1", total)
    else:
        low, high = _halves(right, right_scale, BN, BK)
        if A == "mx4":
            even, odd = _halves(left, left_scale, BM, BK)
        elif A == "mx8":
            factor = tl.exp2(_spread(left_scale, BM, BK // 32, 32).to(tl.float32) - 127.0)
            even, odd = tl.split((left.to(tl.float32) * factor).to(tl.bfloat16).reshape(BM, BK // 2, 2))
        else:
            even, odd = tl.split(left.reshape(BM, BK // 2, 2))
        total = tl.dot(odd, high.T, tl.dot(even, low.T, total))
    return total


@triton.jit
def _step(
    total, a, b, scale_a, scale_b, at, k,
    A: tl.constexpr, B: tl.constexpr, GA: tl.constexpr, NATIVE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """total + a @ b^T over K from `at` to at + BK; a, b and their scales are pointers to the starts of rows."""
    if B == "mx4":
        total = _mx_step(total, a, b, scale_a, scale_b, at, k, A, NATIVE, BM, BN, BK)
    else:
        depth = at + tl.arange(0, BK)
        left = tl.load(a[:, None] + depth[None, :], mask=depth[None, :] < k, other=0.0)
        right = tl.load(b[None, :] + depth[:, None], mask=depth[:, None] < k, other=0.0)
        if A == "grouped":
            factor = tl.load(scale_a + at // GA)[:, None]
            if B == "blocks":
                factor = factor * tl.load(scale_b + at // 128)[None, :]
            empty = _zeros(a, BM, BN)
            total += tl.dot(left, right, empty, out_dtype=empty.dtype).to(tl.float32) * factor
        else:
            total = tl.dot(left, right, total, out_dtype=total.dtype)
    return total


@triton.jit
def product(
    a, b, scale_a, scale_b, out, parts, locks, m, n, k, split,
    A: tl.constexpr, B: tl.constexpr, NATIVE: tl.constexpr, JOIN: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):
    """out = a @ b^T of batch entry program_id(2), K in `split` parts.

    JOIN: `none` for one part, `last` if the program that comes last to a tile adds the parts up, `later` for join.
    """
    batch = tl.program_id(2).to(tl.int64)
    tile_m, tile_n = _tile(tl.program_id(0), m, n, BM, BN, GROUP)
    row = (tile_m * BM + tl.arange(0, BM)).to(tl.int64)
    column = (tile_n * BN + tl.arange(0, BN)).to(tl.int64)
    here, there = batch * m + tl.where(row < m, row, 0), batch * n + tl.where(column < n, column, 0)
    each_a, each_b = k, k
    scales_a, scales_b = scale_a, scale_b
    if A == "mx4":
        each_a = k // 2
    if B == "mx4":
        each_b = k // 2
        scales_b = scale_b + there * tl.cdiv(k, 32)
    if A == "mx4" or A == "mx8":
        scales_a = scale_a + here * tl.cdiv(k, 32)
    if A == "grouped":
        scales_a = scale_a + here * tl.cdiv(k, 128)
    if B == "blocks":
        scales_b = scale_b + tl.where(column < n, column, 0) // 128 * tl.cdiv(k, 128)
    total = _zeros(a, BM, BN)
    steps = tl.cdiv(k, BK)
    share = tl.cdiv(steps, split)
    rows_a, rows_b = a + here * each_a, b + there * each_b
    for step in range(tl.program_id(1) * share, min((tl.program_id(1) + 1) * share, steps)):
        total = _step(total, rows_a, rows_b, scales_a, scales_b, step * BK, k, A, B, 128, NATIVE, BM, BN, BK)
    if A == "rows":
        total = total.to(tl.float32) * tl.load(scale_a + here)[:, None] * tl.load(scale_b + there)[None, :]
    inside = (row[:, None] < m) & (column[None, :] < n)
    target = row[:, None] * n + column[None, :]
    if JOIN == "none":
        tl.store(out + batch * m * n + target, total.to(out.dtype.element_ty), mask=inside)
    else:
        mine = batch * split + tl.program_id(1)
        tl.store(parts + mine * m * n + target, total.to(tl.float32), mask=inside)
    if JOIN == "last":
        lock = locks + batch * tl.num_programs(0) + tl.program_id(0)
        # All warps have stored before one of them says so.
        tl.debug_barrier()
        if tl.atomic_add(lock, 1, sem="acq_rel") == split - 1:
            tl.debug_barrier()
            added = tl.zeros((BM, BN), dtype=tl.float32)
            for part in range(split):
                place = parts + (batch * split + part) * m * n + target
                added += tl.load(place, mask=inside, other=0.0, cache_modifier=".cg")
            tl.store(out + batch * m * n + target, added.to(out.dtype.element_ty), mask=inside)
            tl.store(lock, 0)


@triton.jit
def join(parts, out, size, split, BLOCK: tl.constexpr):
    """out (batch, size) = the sum of its `split` parts (batch, split, size)."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    batch = tl.program_id(1).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(split):
        total += tl.load(parts + (batch * split + part) * size + place, mask=place < size, other=0.0)
    tl.store(out + batch * size + place, total.to(out.dtype.element_ty), mask=place < size)
