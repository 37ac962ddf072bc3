"""Triton code of kernels over rows and elements; a tensor that an op does not have is None and leaves no code."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def loaded(x, residual, offset, inside):
    value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
    if residual is not None:
        value += tl.load(residual + offset, mask=inside, other=0.0).to(tl.float32)
    return value


@triton.jit
def scaled(value, weight, bias, smooth, column, inside):
    value *= tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    if bias is not None:
        value += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    if smooth is not None:
        value *= tl.load(smooth + column, mask=inside, other=0.0).to(tl.float32)
    return value


@triton.jit
def scale_of(largest, limit):
    found = largest / limit
    return tl.where(found == 0.0, 1.0, found)


@triton.jit
def coded(value, scale, limit, ROUND: tl.constexpr):
    parts = tl.minimum(tl.maximum(value / scale, -limit), limit)
    if ROUND:
        parts = tl.floor(parts + 0.5)
    return parts


@triton.jit
def gathered(x, residual, residual_out, offset, inside):
    value = loaded(x, residual, offset, inside)
    if residual_out is not None:
        tl.store(residual_out + offset, value.to(residual_out.dtype.element_ty), mask=inside)
    return value


@triton.jit
def norm(
    x, residual, weight, bias, smooth, out, residual_out, scale, rows, columns, eps, limit,
    ROUND: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    # A row is BLOCK columns and a TAIL, both powers of two: 5120 in one block would hold registers for 8192.
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    value = gathered(x, residual, residual_out, row * columns + column, inside)
    if TAIL > 0:
        last = BLOCK + tl.arange(0, TAIL)[None, :]
        within = (row < rows) & (last < columns)
        rest = gathered(x, residual, residual_out, row * columns + last, within)
    if bias is not None:
        mean = tl.sum(value, axis=1, keep_dims=True)
        if TAIL > 0:
            mean += tl.sum(rest, axis=1, keep_dims=True)
            rest = tl.where(within, rest - mean / columns, 0.0)
        value = tl.where(inside, value - mean / columns, 0.0)
    squares = tl.sum(value * value, axis=1, keep_dims=True)
    if TAIL > 0:
        squares += tl.sum(rest * rest, axis=1, keep_dims=True)
    gain = tl.rsqrt(squares / columns + eps)
    value = scaled(value * gain, weight, bias, smooth, column, column < columns)
    if TAIL > 0:
        rest = scaled(rest * gain, weight, bias, smooth, last, last < columns)
    if scale is not None:
        largest = tl.max(tl.where(inside, tl.abs(value), 0.0), axis=1, keep_dims=True)
        if TAIL > 0:
            largest = tl.maximum(largest, tl.max(tl.where(within, tl.abs(rest), 0.0), axis=1, keep_dims=True))
        step = scale_of(largest, limit)
        tl.store(scale + row, step, mask=row < rows)
        value = coded(value, step, limit, ROUND)
        if TAIL > 0:
            rest = coded(rest, step, limit, ROUND)
    tl.store(out + row * columns + column, value.to(out.dtype.element_ty), mask=inside)
    if TAIL > 0:
        tl.store(out + row * columns + last, rest.to(out.dtype.element_ty), mask=within)


@triton.jit
def norm_looped(
    x, residual, weight, bias, smooth, out, residual_out, scale, columns, eps, limit,
    ROUND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(0).to(tl.int64) * columns
    mean = 0.0
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = loaded(x, residual, base + column, column < columns)
        if residual_out is not None:
            tl.store(residual_out + base + column, value.to(residual_out.dtype.element_ty), mask=column < columns)
        total += value
        squares += value * value
    if bias is not None:
        mean = tl.sum(total, axis=0) / columns
        squares = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, columns, BLOCK):
            column = start + tl.arange(0, BLOCK)
            value = loaded(x, residual, base + column, column < columns)
            squares += tl.where(column < columns, (value - mean) * (value - mean), 0.0)
    gain = tl.rsqrt(tl.sum(squares, axis=0) / columns + eps)
    step = 1.0
    if scale is not None:
        largest = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, columns, BLOCK):
            column = start + tl.arange(0, BLOCK)
            value = (loaded(x, residual, base + column, column < columns) - mean) * gain
            value = scaled(value, weight, bias, smooth, column, column < columns)
            largest = tl.maximum(largest, tl.abs(value))
        step = scale_of(tl.max(largest, axis=0), limit)
        tl.store(scale + tl.program_id(0), step)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = (loaded(x, residual, base + column, column < columns) - mean) * gain
        value = scaled(value, weight, bias, smooth, column, column < columns)
        if scale is not None:
            value = coded(value, step, limit, ROUND)
        tl.store(out + base + column, value.to(out.dtype.element_ty), mask=column < columns)


@triton.jit
def rmsnorm_bwd(x, dy, weight, rstd, dx, partial, rows, columns, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < columns
    gain = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0).to(tl.int64), rows, PROGRAMS):
        offset = row * columns + column
        scale = tl.load(rstd + row)
        hat = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32) * scale
        slope = tl.load(dy + offset, mask=inside, other=0.0).to(tl.float32)
        total += slope * hat
        slope *= gain
        found = (slope - hat * (tl.sum(hat * slope, axis=0) / columns)) * scale
        tl.store(dx + offset, found.to(dx.dtype.element_ty), mask=inside)
    tl.store(partial + tl.program_id(0) * columns + column, total, mask=inside)


@triton.jit
def column_sums(partial, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        total += tl.load(partial + row * columns + column, mask=(row < rows) & (column < columns), other=0.0)
    tl.store(out + column, tl.sum(total, axis=0, keep_dims=True), mask=column < columns)


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
def softmax_looped(x, out, columns, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * columns
    largest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + base + column, mask=column < columns, other=-float("inf")).to(tl.float32)
        found = tl.maximum(largest, tl.max(value, axis=0))
        total = total * tl.exp(largest - found) + tl.sum(tl.exp(value - found), axis=0)
        largest = found
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        value = tl.load(x + base + column, mask=column < columns, other=-float("inf")).to(tl.float32)
        value = tl.exp(value - largest) / total
        tl.store(out + base + column, value.to(out.dtype.element_ty), mask=column < columns)


@triton.jit
def vec_add(a, b, out, count, BLOCK: tl.constexpr):
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    total = tl.load(a + offset, mask=inside).to(tl.float32) + tl.load(b + offset, mask=inside).to(tl.float32)
    tl.store(out + offset, total.to(out.dtype.element_ty), mask=inside)
