"""Triton code of kernels over rows and elements."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rmsnorm(x, weight, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    gain = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, axis=0) / columns + eps)
    tl.store(out + row * columns + column, (value * scale * gain).to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax(x, out, rows, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    value = tl.load(x + row * columns + column, mask=inside, other=-float("inf")).to(tl.float32)
    value = tl.exp(value - tl.max(value, axis=1)[:, None])
    value = value / tl.sum(value, axis=1)[:, None]
    tl.store(out + row * columns + column, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def vec_add(a, b, out, count, BLOCK: tl.constexpr):
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    total = tl.load(a + offset, mask=inside).to(tl.float32) + tl.load(b + offset, mask=inside).to(tl.float32)
    tl.store(out + offset, total.to(out.dtype.element_ty), mask=inside)
