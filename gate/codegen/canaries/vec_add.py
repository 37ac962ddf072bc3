"""Knows C = A + B on flat vectors: one vector of `width` elements per thread, the length known at launch."""

# mypy: ignore-errors
# Kernel bodies are traced by FlyDSL into MLIR; its values carry no static types.

import flydsl.compiler as flyc
import flydsl.expr as fx
import rows


def build(dtype, *, width):
    """Return the launcher of `(A[n], B[n], C[n], n / width, stream)` and the arguments that compile it."""

    @flyc.kernel
    def vec_add_flat(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, count: fx.Int32):
        index = fx.block_idx.x * rows.THREADS + fx.thread_idx.x
        atom = rows.copy_atom(width, dtype)
        a = rows.vectors(A, width)
        b = rows.vectors(B, width)
        c = rows.vectors(C, width)
        if index < count:
            total = rows.load(atom, a, index, width, dtype) + rows.load(atom, b, index, width, dtype)
            rows.store(atom, c, index, total, width, dtype)

    @flyc.jit
    def launch(
        A: fx.Tensor,
        B: fx.Tensor,
        C: fx.Tensor,
        count: fx.Int32,
        stream: fx.Stream = fx.Stream(None),  # noqa: B008
    ):
        blocks = (count + rows.THREADS - 1) // rows.THREADS
        vec_add_flat(A, B, C, count).launch(grid=(blocks, 1, 1), block=(rows.THREADS, 1, 1), stream=stream)

    flat = ("tensor", dtype, (4096,))
    return launch, (flat, flat, flat, ("int32", 4096 // width), ("stream",))
