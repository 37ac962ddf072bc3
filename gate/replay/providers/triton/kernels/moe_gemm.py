"""Triton code of a mixture of experts: both grouped products over tokens sorted by expert, and the sum of the topk.

A slot is a (token, topk place); `slots` holds them expert by expert, each expert padded to whole tiles of BM with slots
beyond the last one, and `experts` the expert of each tile, -1 where no slot is left. Forms are those of gemm.py.
"""

# mypy: ignore-errors
# fmt: off
from __future__ import annotations

import triton
import triton.language as tl

from gate.replay.providers.triton.kernels.gemm import _step, _tile, _zeros


@triton.jit
def _scale_rows(scale, row, k, FORM: tl.constexpr, GROUP: tl.constexpr):
    """Pointers to the scales of rows; a row has one for each GROUP of k."""
    # Not by two returns: Triton compiles what follows the first one too.
    rows = scale
    if FORM != "rows" and FORM != "wide":
        rows = scale + row * tl.cdiv(k, GROUP)
    return rows


@triton.jit
def _code(value, dtype: tl.constexpr):
    if dtype == tl.int8:
        value = tl.floor(value + 0.5)
    return value.to(dtype)


@triton.jit
def gate_up(
    x, w, scale_x, scale_w, out, scale_out, slots, experts, places, tiles, n, k,
    A: tl.constexpr, B: tl.constexpr, NATIVE: tl.constexpr, TOPK: tl.constexpr, LIMIT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):
    """out (places, n) = silu(x @ gate^T) * (x @ up^T); with a LIMIT as codes, one scale_out for each BN of a row."""
    tile_m, tile_n = _tile(tl.program_id(0), tiles * BM, n, BM, BN, GROUP)
    expert = tl.load(experts + tile_m).to(tl.int64)
    if expert < 0:
        return
    slot = tl.load(slots + tile_m * BM + tl.arange(0, BM)).to(tl.int64)
    token = tl.where(slot < places, slot, 0) // TOPK
    column = (tile_n * BN + tl.arange(0, BN)).to(tl.int64)
    gates = expert * 2 * n + tl.where(column < n, column, 0)
    ups = gates + n
    each_x, each_w = k, k
    if A == "mx4":
        each_x = k // 2
    if B == "mx4":
        each_w = k // 2
    group: tl.constexpr = 128 if A == "grouped" else 32
    scales_x = _scale_rows(scale_x, token, k, A, group)
    gate_scales, up_scales = scale_w, scale_w
    if B == "mx4":
        gate_scales, up_scales = scale_w + gates * tl.cdiv(k, 32), scale_w + ups * tl.cdiv(k, 32)
    if B == "blocks":
        # Blocks are counted over gate and up together, so the first of up may begin within a block.
        first = expert * tl.cdiv(2 * n, 128)
        gate_scales = scale_w + (first + (gates - expert * 2 * n) // 128) * tl.cdiv(k, 128)
        up_scales = scale_w + (first + (ups - expert * 2 * n) // 128) * tl.cdiv(k, 128)
    gate, up = _zeros(x, BM, BN), _zeros(x, BM, BN)
    for at in range(0, k, BK):
        rows = x + token * each_x
        gate = _step(gate, rows, w + gates * each_w, scales_x, gate_scales, at, k, A, B, 128, NATIVE, BM, BN, BK)
        up = _step(up, rows, w + ups * each_w, scales_x, up_scales, at, k, A, B, 128, NATIVE, BM, BN, BK)
    if A == "rows":
        own = tl.load(scale_x + token)[:, None]
        gate = gate.to(tl.float32) * own * tl.load(scale_w + gates)[None, :]
        up = up.to(tl.float32) * own * tl.load(scale_w + ups)[None, :]
    value = tl.where(column[None, :] < n, gate / (1.0 + tl.exp(-gate)) * up, 0.0)
    inside = (slot < places)[:, None] & (column[None, :] < n)
    target = out + slot[:, None] * n + column[None, :]
    if LIMIT:
        scale = tl.maximum(tl.max(tl.abs(value), axis=1), 1e-10) / LIMIT
        tl.store(scale_out + slot * tl.cdiv(n, BN) + tile_n, scale, mask=slot < places)
        tl.store(target, _code(value / scale[:, None], out.dtype.element_ty), mask=inside)
    else:
        tl.store(target, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def down(
    h, w, scale_h, scale_w, weights, out, slots, experts, places, tiles, n, k,
    A: tl.constexpr, B: tl.constexpr, NATIVE: tl.constexpr, ROWS: tl.constexpr, GA: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):
    """out (places, n) = (h @ w^T) * the slot's weight; ROWS where w has one scale a row."""
    tile_m, tile_n = _tile(tl.program_id(0), tiles * BM, n, BM, BN, GROUP)
    expert = tl.load(experts + tile_m).to(tl.int64)
    if expert < 0:
        return
    slot = tl.load(slots + tile_m * BM + tl.arange(0, BM)).to(tl.int64)
    own = tl.where(slot < places, slot, 0)
    column = (tile_n * BN + tl.arange(0, BN)).to(tl.int64)
    there = expert * n + tl.where(column < n, column, 0)
    each_w = k
    scales_w = scale_w
    if B == "mx4":
        each_w = k // 2
        scales_w = scale_w + there * tl.cdiv(k, 32)
    if B == "blocks":
        scales_w = scale_w + (expert * tl.cdiv(n, 128) + (there - expert * n) // 128) * tl.cdiv(k, 128)
    scales_h = _scale_rows(scale_h, own, k, A, GA)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for at in range(0, k, BK):
        total = _step(total, h + own * k, w + there * each_w, scales_h, scales_w, at, k, A, B, GA, NATIVE, BM, BN, BK)
    if ROWS:
        total *= tl.load(scale_w + there)[None, :]
    total *= tl.load(weights + own)[:, None]
    inside = (slot < places)[:, None] & (column[None, :] < n)
    tl.store(out + slot[:, None] * n + column[None, :], total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def sum_topk(parts, out, n, TOPK: tl.constexpr, BLOCK: tl.constexpr):
    """out (M, n) = the sum of the TOPK rows of each token."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for place in tl.static_range(TOPK):
        total += tl.load(parts + (token * TOPK + place) * n + column, mask=column < n, other=0.0).to(tl.float32)
    tl.store(out + token * n + column, total.to(out.dtype.element_ty), mask=column < n)
