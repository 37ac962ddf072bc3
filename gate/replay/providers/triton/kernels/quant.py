"""Triton code of per-token quantisation."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from gate.replay.providers.triton.kernels.norm import coded, scale_of


@triton.jit
def quant(
    x, out, scale, rows, columns, limit, ROUND: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    value = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    step = scale_of(tl.max(tl.abs(value), axis=1, keep_dims=True), limit)
    tl.store(scale + row, step, mask=row < rows)
    tl.store(out + row * columns + column, coded(value, step, limit, ROUND).to(out.dtype.element_ty), mask=inside)


@triton.jit
def quant_looped(x, out, scale, columns, limit, ROUND: tl.constexpr, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * columns
    largest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + base + column, mask=column < columns, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(value))
    step = scale_of(tl.max(largest, axis=0), limit)
    tl.store(scale + tl.program_id(0), step)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + base + column, mask=column < columns, other=0.0).to(tl.float32)
        tl.store(out + base + column, coded(value, step, limit, ROUND).to(out.dtype.element_ty), mask=column < columns)
