"""Triton code around the experts of a mixture: choosing them, sorting by them, adding their outputs."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def moe_reduce(x, out, columns, TOPK: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for choice in tl.static_range(TOPK):
        total += tl.load(x + (token * TOPK + choice) * columns + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + token * columns + column, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def topk_gating_softmax(
    logits, weights, indices, tokens, experts, TOPK: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    CHOICES: tl.constexpr,
):  # fmt: skip
    """Picks the largest again and again; only the chosen need the softmax, whose sum cancels when they are scaled."""
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    expert, choice = tl.arange(0, BLOCK), tl.arange(0, CHOICES)
    inside = (token < tokens)[:, None] & (expert < experts)[None, :]
    at = token.to(tl.int64)[:, None] * experts + expert[None, :]
    left = tl.load(logits + at, mask=inside, other=float("-inf")).to(tl.float32)
    first = tl.max(left, axis=1)
    values = tl.zeros((ROWS, CHOICES), dtype=tl.float32)
    named = tl.zeros((ROWS, CHOICES), dtype=tl.int32)
    for index in tl.static_range(TOPK):
        best = tl.max(left, axis=1)
        who = tl.argmax(left, axis=1).to(tl.int32)
        values = tl.where(choice[None, :] == index, tl.exp(best - first)[:, None], values)
        named = tl.where(choice[None, :] == index, who[:, None], named)
        left = tl.where(expert[None, :] == who[:, None], float("-inf"), left)
    values = values / tl.sum(values, axis=1)[:, None]
    to = token.to(tl.int64)[:, None] * TOPK + choice[None, :]
    kept = (token < tokens)[:, None] & (choice < TOPK)[None, :]
    tl.store(weights + to, values, mask=kept)
    tl.store(indices + to, named, mask=kept)


@triton.jit
def sorting_clear(counts, sorted_ids, sorted_weights, buffer, experts, ids, elements, padding, BLOCK: tl.constexpr):
    """Sets counters and the buffer to zero, and every id to padding."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(counts + place, tl.zeros((BLOCK,), dtype=tl.int32), mask=place < 2 * experts)
    tl.store(sorted_ids + place, tl.zeros((BLOCK,), dtype=tl.int32) + padding, mask=place < ids)
    tl.store(sorted_weights + place, tl.zeros((BLOCK,), dtype=tl.float32), mask=place < ids)
    zero = tl.zeros((BLOCK,), dtype=buffer.dtype.element_ty)
    tl.store(buffer + place, zero, mask=place < elements)


@triton.jit
def sorting_count(topk_ids, counts, pairs, BLOCK: tl.constexpr):
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    expert = tl.load(topk_ids + pair, mask=inside, other=0)
    tl.atomic_add(counts + expert, tl.full((BLOCK,), 1, dtype=tl.int32), mask=inside)


@triton.jit
def sorting_place(
    topk_ids, topk_weights, counts, sorted_ids, sorted_weights, sorted_experts, num_valid, pairs, tokens, experts,
    TOPK: tl.constexpr, UNIT: tl.constexpr, EXPERTS: tl.constexpr, TILES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Every program adds up the groups before its own pairs'; program e also writes the tiles of expert e."""
    program = tl.program_id(0)
    every = tl.arange(0, EXPERTS)
    tiles = (tl.load(counts + every, mask=every < experts, other=0) + UNIT - 1) // UNIT
    if program < experts:
        before = tl.sum(tl.where(every < program, tiles, 0), axis=0)
        own = tl.sum(tl.where(every == program, tiles, 0), axis=0)
        for first in range(0, own, TILES):
            tile = first + tl.arange(0, TILES)
            tl.store(sorted_experts + before + tile, tl.zeros((TILES,), dtype=tl.int32) + program, mask=tile < own)
    if program == 0:
        tl.store(num_valid, tl.sum(tiles, axis=0) * UNIT)
        tl.store(num_valid + 1, tokens)
    pair = program * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    expert = tl.load(topk_ids + pair, mask=inside, other=0)
    start = tl.sum(tl.where(every[None, :] < expert[:, None], tiles[None, :], 0), axis=1) * UNIT
    rank = tl.atomic_add(counts + experts + expert, tl.full((BLOCK,), 1, dtype=tl.int32), mask=inside)
    packed = ((pair % TOPK) << 24) | (pair // TOPK)
    tl.store(sorted_ids + start + rank, packed, mask=inside)
    tl.store(sorted_weights + start + rank, tl.load(topk_weights + pair, mask=inside, other=0.0), mask=inside)
