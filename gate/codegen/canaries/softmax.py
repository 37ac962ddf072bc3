"""Knows softmax over the last axis as one workgroup per row: exp(x - max) / sum, the row held in registers."""

# mypy: ignore-errors
# Kernel bodies are traced by FlyDSL into MLIR; its values carry no static types.

import flydsl.compiler as flyc
import flydsl.expr as fx
import rows
from flydsl.expr import arith, const_expr, range_constexpr
from flydsl.expr import math as fmath
from flydsl.expr.typing import ReductionOp


def build(dtype, *, N):
    """Return the launcher of `(X[M,N], Y[M,N], M, stream)` and the arguments that compile it."""
    width = rows.vector_width(N, dtype)
    row_vectors = N // width
    tiles = -(-row_vectors // rows.THREADS)
    ragged = row_vectors % rows.THREADS != 0

    @fx.struct
    class Shared:
        peaks: fx.Array[fx.Float32, rows.WAVES, 16]
        sums: fx.Array[fx.Float32, rows.WAVES, 16]

    @flyc.kernel
    def softmax_rows(X: fx.Tensor, Y: fx.Tensor):
        row = fx.block_idx.x
        tid = fx.thread_idx.x
        shared = fx.SharedAllocator().allocate(Shared).peek()
        peaks = shared.peaks.view(fx.make_layout(rows.WAVES, 1))
        sums = shared.sums.view(fx.make_layout(rows.WAVES, 1))
        atom = rows.copy_atom(width, dtype)
        x_row = rows.vectors_of_row(X, row, width)
        y_row = rows.vectors_of_row(Y, row, width)
        lowest = fx.Float32(float("-inf"))

        kept = []
        peak = lowest
        for tile in range_constexpr(tiles):
            index = tid + tile * rows.THREADS
            if const_expr(ragged and tile == tiles - 1):
                inside = index < row_vectors
                x = rows.wide(rows.load(atom, x_row, inside.select(index, 0), width, dtype), dtype)
                peak = fx.max(peak, inside.select(x.reduce(ReductionOp.MAX), lowest))
            else:
                x = rows.wide(rows.load(atom, x_row, index, width, dtype), dtype)
                peak = fx.max(peak, x.reduce(ReductionOp.MAX))
            kept.append(x)
        peak = rows.block_reduce(peak, fx.max, peaks, tid)

        total = fx.Float32(0.0)
        for tile in range_constexpr(tiles):
            # Approximate exp2 is the hardware's v_exp_f32; the exact one needs ROCm's ocml bitcode at compile time.
            kept[tile] = fmath.exp2((kept[tile] - peak) * rows.LOG2E, fastmath=arith.FastMathFlags.afn)
            part = kept[tile].reduce(ReductionOp.ADD)
            if const_expr(ragged and tile == tiles - 1):
                part = (tid + tile * rows.THREADS < row_vectors).select(part, fx.Float32(0.0))
            total = total + part
        scale = 1.0 / rows.block_reduce(total, lambda a, b: a + b, sums, tid)

        for tile in range_constexpr(tiles):
            index = tid + tile * rows.THREADS
            if const_expr(ragged and tile == tiles - 1):
                if index < row_vectors:
                    rows.store(atom, y_row, index, rows.narrow(kept[tile] * scale, dtype), width, dtype)
            else:
                rows.store(atom, y_row, index, rows.narrow(kept[tile] * scale, dtype), width, dtype)

    @flyc.jit
    def launch(X: fx.Tensor, Y: fx.Tensor, M: fx.Int32, stream: fx.Stream = fx.Stream(None)):  # noqa: B008
        softmax_rows(X, Y).launch(grid=(M, 1, 1), block=(rows.THREADS, 1, 1), stream=stream)

    return launch, (("tensor", dtype, (4, N)), ("tensor", dtype, (4, N)), ("int32", 4), ("stream",))
