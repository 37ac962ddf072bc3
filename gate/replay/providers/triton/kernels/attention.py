"""Triton code of attention over whole sequences and over caches, split along the keys and put together again."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _step(total, largest, sums, scores, visible, value):
    """One block of keys into the running softmax; scores are in units of log2."""
    scores = tl.where(visible, scores, float("-inf"))
    now = tl.maximum(largest, tl.max(scores, axis=1))
    # A row that has seen nothing keeps -inf as its largest; the shift must stay finite.
    shift = tl.where(now == float("-inf"), 0.0, now)
    weights = tl.exp2(scores - shift[:, None])
    shrink = tl.exp2(largest - shift)
    sums = sums * shrink + tl.sum(weights, axis=1)
    total = tl.dot(weights.to(value.dtype), value, total * shrink[:, None])
    return total, now, sums


@triton.jit
def flash(
    q, k, v, out, scale, queries, keys, heads, groups, window,
    DQ: tl.constexpr, DQ2: tl.constexpr, DV: tl.constexpr, DV2: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head. q (B, Sq, H, DQ), k (B, Sk, G, DQ), v (B, Sk, G, DV); scale holds log2(e)."""
    # The longest rows of a causal product go first, so that the short ones fill the end.
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    head = tl.program_id(1) % heads
    batch = (tl.program_id(1) // heads).to(tl.int64)
    group = head // (heads // groups)
    row = tile * BM + tl.arange(0, BM)
    column, wide = tl.arange(0, DQ2), tl.arange(0, DV2)
    own = row + (keys - queries)
    at = ((batch * queries + row)[:, None] * heads + head) * DQ + column[None, :]
    asked = tl.load(q + at, mask=(row < queries)[:, None] & (column < DQ)[None, :], other=0.0)
    if WIDE:
        asked = asked.to(tl.float16)
    total = tl.zeros((BM, DV2), dtype=tl.float32)
    largest = tl.full((BM,), float("-inf"), dtype=tl.float32)
    sums = tl.zeros((BM,), dtype=tl.float32)
    stop = keys
    start = 0
    if CAUSAL:
        stop = tl.minimum(keys, tile * BM + BM + (keys - queries))
    if WINDOW:
        start = tl.maximum(0, (tile * BM + (keys - queries) - window + 1) // BN * BN)
    # Blocks that every query of the tile sees whole need no mask.
    free = start
    if CAUSAL and not WINDOW:
        free = tl.maximum(tile * BM + (keys - queries) + 1, 0) // BN * BN
        free = tl.minimum(free, keys // BN * BN)
    if not CAUSAL and not WINDOW:
        free = keys // BN * BN
    from_k = k + (batch * keys * groups + group) * DQ
    from_v = v + (batch * keys * groups + group) * DV
    for first in range(start, free, BN):
        place = (first + tl.arange(0, BN)).to(tl.int64)
        key = tl.load(from_k + place[None, :] * (groups * DQ) + column[:, None], mask=(column < DQ)[:, None], other=0.0)
        value = tl.load(from_v + place[:, None] * (groups * DV) + wide[None, :], mask=(wide < DV)[None, :], other=0.0)
        if WIDE:
            key, value = key.to(tl.float16), value.to(tl.float16)
        scores = tl.dot(asked, key) * scale
        now = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - now[:, None])
        shrink = tl.exp2(largest - now)
        sums = sums * shrink + tl.sum(weights, axis=1)
        total = tl.dot(weights.to(value.dtype), value, total * shrink[:, None])
        largest = now
    for first in range(free, stop, BN):
        place = (first + tl.arange(0, BN)).to(tl.int64)
        inside = place < keys
        key = tl.load(
            from_k + place[None, :] * (groups * DQ) + column[:, None],
            mask=(column < DQ)[:, None] & inside[None, :],
            other=0.0,
        )
        value = tl.load(
            from_v + place[:, None] * (groups * DV) + wide[None, :],
            mask=(wide < DV)[None, :] & inside[:, None],
            other=0.0,
        )
        if WIDE:
            key, value = key.to(tl.float16), value.to(tl.float16)
        visible = inside[None, :] & (row < queries)[:, None]
        if CAUSAL:
            visible = visible & (place[None, :] <= own[:, None])
        if WINDOW:
            visible = visible & (place[None, :] > own[:, None] - window)
        total, largest, sums = _step(total, largest, sums, tl.dot(asked, key) * scale, visible, value)
    result = total / sums[:, None]
    to = ((batch * queries + row)[:, None] * heads + head) * DV + wide[None, :]
    tl.store(out + to, result.to(out.dtype.element_ty), mask=(row < queries)[:, None] & (wide < DV)[None, :])


@triton.jit
def paged_split(
    q, key_cache, value_cache, tables, lengths, key_scale, value_scale, partial, summary,
    scale, heads, groups, pages, queries, window, per_split,
    DQ: tl.constexpr, DQ2: tl.constexpr, DV: tl.constexpr, DV2: tl.constexpr, PAGE: tl.constexpr,
    WINDOW: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One span of one sequence's cache for all queries of one group of heads; partial results in fp32.

    A row is (query of the sequence, head of the group). partial (B, G, S, ROWS, DV), summary (B, G, S, ROWS, 2).
    """
    batch, group, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    splits = tl.num_programs(2)
    length = tl.load(lengths + batch)
    share = heads // groups
    row = tl.arange(0, ROWS)
    query, head = row // share, group * share + row % share
    real = query < queries
    own = length - queries + query
    column, wide = tl.arange(0, DQ2), tl.arange(0, DV2)
    at = ((batch * queries + query)[:, None] * heads + head[:, None]) * DQ + column[None, :]
    asked = tl.load(q + at, mask=real[:, None] & (column < DQ)[None, :], other=0.0)
    total = tl.zeros((ROWS, DV2), dtype=tl.float32)
    largest = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    sums = tl.zeros((ROWS,), dtype=tl.float32)
    factor = scale * tl.load(key_scale)
    begin = 0
    if WINDOW:
        begin = tl.maximum(length - queries + 1 - window, 0) // BN * BN
    start = begin + split * per_split
    for first in range(start, tl.minimum(start + per_split, length), BN):
        place = first + tl.arange(0, BN)
        inside = place < length
        page = tl.load(tables + batch * pages + place // PAGE, mask=inside, other=0).to(tl.int64)
        within = place % PAGE
        from_k = (page * groups + group) * (DQ * PAGE) + within * 16
        key = tl.load(
            key_cache + from_k[None, :] + (column // 16 * (PAGE * 16) + column % 16)[:, None],
            mask=inside[None, :] & (column < DQ)[:, None],
            other=0.0,
        ).to(asked.dtype)
        from_v = (page * groups + group) * (DV * PAGE) + within
        value = tl.load(
            value_cache + from_v[:, None] + (wide * PAGE)[None, :],
            mask=inside[:, None] & (wide < DV)[None, :],
            other=0.0,
        ).to(asked.dtype)
        visible = inside[None, :] & (place[None, :] <= own[:, None]) & real[:, None]
        if WINDOW:
            visible = visible & (place[None, :] > own[:, None] - window)
        total, largest, sums = _step(total, largest, sums, tl.dot(asked, key) * factor, visible, value)
    to = ((batch * groups + group) * splits + split) * ROWS + row
    tl.store(partial + to[:, None] * DV + wide[None, :], total * tl.load(value_scale), mask=(wide < DV)[None, :])
    tl.store(summary + to * 2, largest)
    tl.store(summary + to * 2 + 1, sums)


@triton.jit
def latent_split(
    q, cache, indptr, indices, partial, summary, scale, heads, blocks, per_split,
    DEPTH: tl.constexpr, DV: tl.constexpr, REST: tl.constexpr, ROWS: tl.constexpr, BN: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One span of one sequence's latent cache for a block of heads. DEPTH = DV + REST; values are the first DV.

    partial (B, blocks, S, ROWS, DV), summary (B, blocks, S, ROWS, 2).
    """
    batch, block, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    splits = tl.num_programs(2)
    begin = tl.load(indptr + batch)
    length = tl.load(indptr + batch + 1) - begin
    head = block * ROWS + tl.arange(0, ROWS)
    real = head < heads
    wide, rest = tl.arange(0, DV), tl.arange(0, REST)
    at = (batch * heads + head)[:, None] * DEPTH
    asked = tl.load(q + at + wide[None, :], mask=real[:, None], other=0.0)
    asked_rest = tl.load(q + at + DV + rest[None, :], mask=real[:, None], other=0.0)
    if WIDE:
        asked, asked_rest = asked.to(tl.float16), asked_rest.to(tl.float16)
    total = tl.zeros((ROWS, DV), dtype=tl.float32)
    largest = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    sums = tl.zeros((ROWS,), dtype=tl.float32)
    start = split * per_split
    for first in range(start, tl.minimum(start + per_split, length), BN):
        place = first + tl.arange(0, BN)
        inside = place < length
        token = tl.load(indices + begin + place, mask=inside, other=0).to(tl.int64)
        value = tl.load(cache + token[:, None] * DEPTH + wide[None, :], mask=inside[:, None], other=0.0)
        more = tl.load(cache + token[None, :] * DEPTH + DV + rest[:, None], mask=inside[None, :], other=0.0)
        if WIDE:
            value, more = value.to(tl.float16), more.to(tl.float16)
        scores = tl.dot(asked_rest, more, tl.dot(asked, tl.trans(value))) * scale
        total, largest, sums = _step(total, largest, sums, scores, inside[None, :] & real[:, None], value)
    to = ((batch * blocks + block) * splits + split) * ROWS + tl.arange(0, ROWS)
    tl.store(partial + to[:, None] * DV + wide[None, :], total)
    tl.store(summary + to * 2, largest)
    tl.store(summary + to * 2 + 1, sums)


@triton.jit
def merge(
    partial, summary, out, splits, heads, share, rows, queries,
    DV: tl.constexpr, DV2: tl.constexpr, ROWS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """The spans of one row put together. out (B, queries, heads, DV); row = query * share + head within the group."""
    batch, group, row = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    groups = tl.num_programs(1)
    split, wide = tl.arange(0, SPLITS), tl.arange(0, DV2)
    there = split < splits
    at = ((batch * groups + group) * splits + split) * ROWS + row
    largest = tl.load(summary + at * 2, mask=there, other=float("-inf"))
    sums = tl.load(summary + at * 2 + 1, mask=there, other=0.0)
    weights = tl.exp2(largest - tl.max(largest, axis=0))
    parts = tl.load(partial + at[:, None] * DV + wide[None, :], mask=there[:, None] & (wide < DV)[None, :], other=0.0)
    result = tl.sum(parts * weights[:, None], axis=0) / tl.sum(sums * weights, axis=0)
    to = ((batch * queries + row // share) * heads + group * share + row % share) * DV + wide
    tl.store(out + to, result.to(out.dtype.element_ty), mask=(wide < DV) & (row < rows))
