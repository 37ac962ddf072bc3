"""Knows RMSNorm as one workgroup per row: y = x / sqrt(mean(x^2) + eps) * weight, the row held in registers."""

# mypy: ignore-errors
# Kernel bodies are traced by FlyDSL into MLIR; its values carry no static types.

import flydsl.compiler as flyc
import flydsl.expr as fx
import rows
from flydsl.expr import const_expr, range_constexpr
from flydsl.expr import math as fmath
from flydsl.expr.typing import ReductionOp


def build(dtype, *, N, eps=1e-5):
    """Return the launcher of `(X[M,N], W[N], Y[M,N], M, stream)` and the arguments that compile it."""
    width = rows.vector_width(N, dtype)
    row_vectors = N // width
    tiles = -(-row_vectors // rows.THREADS)
    ragged = row_vectors % rows.THREADS != 0

    @fx.struct
    class Shared:
        slots: fx.Array[fx.Float32, rows.WAVES, 16]

    @flyc.kernel
    def rmsnorm_rows(X: fx.Tensor, W: fx.Tensor, Y: fx.Tensor):
        row = fx.block_idx.x
        tid = fx.thread_idx.x
        slots = fx.SharedAllocator().allocate(Shared).peek().slots.view(fx.make_layout(rows.WAVES, 1))
        atom = rows.copy_atom(width, dtype)
        x_row = rows.vectors_of_row(X, row, width)
        y_row = rows.vectors_of_row(Y, row, width)
        weight = rows.vectors(W, width)

        kept = []
        square_sum = fx.Float32(0.0)
        for tile in range_constexpr(tiles):
            index = tid + tile * rows.THREADS
            if const_expr(ragged and tile == tiles - 1):
                inside = index < row_vectors
                vector = rows.load(atom, x_row, inside.select(index, 0), width, dtype)
                x = rows.wide(vector, dtype)
                square_sum = square_sum + inside.select((x * x).reduce(ReductionOp.ADD), fx.Float32(0.0))
            else:
                vector = rows.load(atom, x_row, index, width, dtype)
                x = rows.wide(vector, dtype)
                square_sum = square_sum + (x * x).reduce(ReductionOp.ADD)
            kept.append(vector)

        total = rows.block_reduce(square_sum, lambda a, b: a + b, slots, tid)
        scale = fmath.rsqrt(total / float(N) + eps)

        for tile in range_constexpr(tiles):
            index = tid + tile * rows.THREADS
            if const_expr(ragged and tile == tiles - 1):
                if index < row_vectors:
                    gain = rows.wide(rows.load(atom, weight, index, width, dtype), dtype)
                    y = rows.wide(kept[tile], dtype) * scale * gain
                    rows.store(atom, y_row, index, rows.narrow(y, dtype), width, dtype)
            else:
                gain = rows.wide(rows.load(atom, weight, index, width, dtype), dtype)
                y = rows.wide(kept[tile], dtype) * scale * gain
                rows.store(atom, y_row, index, rows.narrow(y, dtype), width, dtype)

    @flyc.jit
    def launch(
        X: fx.Tensor,
        W: fx.Tensor,
        Y: fx.Tensor,
        M: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008
    ):
        rmsnorm_rows(X, W, Y).launch(grid=(M, 1, 1), block=(rows.THREADS, 1, 1), stream=stream)

    tensors = (("tensor", dtype, (4, N)), ("tensor", dtype, (N,)), ("tensor", dtype, (4, N)))
    return launch, (*tensors, ("int32", 4), ("stream",))
