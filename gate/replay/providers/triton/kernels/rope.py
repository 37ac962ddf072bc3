"""Triton code of the rotary embedding with its write into the paged cache."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def turned(x, offset, pair, inside, cos, sin):
    first = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(x + offset + pair, mask=inside, other=0.0).to(tl.float32)
    return first * cos - second * sin, second * cos + first * sin


@triton.jit
def put(cache, page, place, head, item, heads, value, scale, inside, D: tl.constexpr, SLOTS: tl.constexpr,
        PACKED: tl.constexpr):  # fmt: skip
    if PACKED > 0:
        offset = ((page * heads + head) * (D // PACKED) + item // PACKED) * SLOTS * PACKED
        offset += place * PACKED + item % PACKED
    else:
        offset = ((page * SLOTS + place) * heads + head) * D + item
    if scale is not None:
        value = value / tl.load(scale)
    tl.store(cache + offset, value.to(cache.dtype.element_ty), mask=inside)


@triton.jit
def rope_cache(
    q, k, v, positions, cos, sin, slots, q_out, k_out, key_cache, value_cache, k_scale, v_scale, heads, kv_heads,
    D: tl.constexpr, HALF: tl.constexpr, BH: tl.constexpr, SLOTS: tl.constexpr, NEOX: tl.constexpr,
    KEY_PACKED: tl.constexpr, VALUE_PACKED: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    step: tl.constexpr = 1 if NEOX else 2
    pair: tl.constexpr = D // 2 if NEOX else 1
    item = tl.arange(0, HALF)[None, :]
    angle = tl.load(positions + token).to(tl.int64) * (D // 2) + item
    c = tl.load(cos + angle, mask=item < D // 2, other=0.0).to(tl.float32)
    s = tl.load(sin + angle, mask=item < D // 2, other=0.0).to(tl.float32)
    first = item * step
    query_blocks = tl.cdiv(heads, BH)
    if block < query_blocks:
        head = block * BH + tl.arange(0, BH)[:, None]
        inside = (head < heads) & (item < D // 2)
        offset = (token * heads + head) * D + first
        low, high = turned(q, offset, pair, inside, c, s)
        tl.store(q_out + offset, low.to(q_out.dtype.element_ty), mask=inside)
        tl.store(q_out + offset + pair, high.to(q_out.dtype.element_ty), mask=inside)
    else:
        head = (block - query_blocks) * BH + tl.arange(0, BH)[:, None]
        inside = (head < kv_heads) & (item < D // 2)
        offset = (token * kv_heads + head) * D + first
        low, high = turned(k, offset, pair, inside, c, s)
        tl.store(k_out + offset, low.to(k_out.dtype.element_ty), mask=inside)
        tl.store(k_out + offset + pair, high.to(k_out.dtype.element_ty), mask=inside)
        slot = tl.load(slots + token).to(tl.int64)
        page, place = slot // SLOTS, slot % SLOTS
        keep = inside & (slot >= 0)
        put(key_cache, page, place, head, first, kv_heads, low, k_scale, keep, D, SLOTS, KEY_PACKED)
        put(key_cache, page, place, head, first + pair, kv_heads, high, k_scale, keep, D, SLOTS, KEY_PACKED)
        low = tl.load(v + offset, mask=inside, other=0.0).to(tl.float32)
        high = tl.load(v + offset + pair, mask=inside, other=0.0).to(tl.float32)
        put(value_cache, page, place, head, first, kv_heads, low, v_scale, keep, D, SLOTS, VALUE_PACKED)
        put(value_cache, page, place, head, first + pair, kv_heads, high, v_scale, keep, D, SLOTS, VALUE_PACKED)
