"""Boundary probes per op: alignment edges, the cliffs of FlyDSL's own dispatch, tiny and huge sizes, dtypes.

No model uses these shapes; they say so in their stage and never carry a promotion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gate.ledgers.draft import Draft
from gate.ledgers.ops.norms import EPS
from gate.ledgers.ops.point import Cell
from gate.model.shape import Source

# FlyDSL's row kernels take 256 threads with 16-byte vectors: 2048 16-bit elements a tile, 1024 of 32 bits.
# N a multiple of the tile is loaded in vectors; any other N goes element by element.
TILE = 2048


def _rows(eps: bool) -> Iterator[Cell]:
    def cell(m: int, n: int, dtype: str, notes: str) -> Cell:
        return Cell(dtype=dtype, args={"M": m, "N": n, **({"eps": EPS} if eps else {})}, notes=notes)

    for n, why in (
        (64, "one wave wide"),
        (TILE - 8, "below one tile, vector-aligned"),
        (TILE - 1, "below one tile, odd"),
        (TILE, "exactly one tile"),
        (TILE + 8, "one vector past a tile"),
        (2 * TILE + 1, "odd, past two tiles"),
        (8 * TILE, "eight tiles"),
    ):
        yield cell(256, n, "bf16", why)
    for m, why in ((2, "two rows"), (257, "one row past the compute units"), (131072, "huge M")):
        yield cell(m, 2 * TILE, "bf16", why)
    yield cell(256, 2 * TILE, "f16", "dtype variant")
    yield cell(256, 2 * TILE, "f32", "dtype variant, tile of 1024")
    yield cell(256, TILE // 2, "f32", "exactly one tile of 32 bits")


def _gemm() -> Iterator[Cell]:
    def cell(m: int, n: int, k: int, dtype: str, notes: str) -> Cell:
        return Cell(dtype=dtype, args={"M": m, "N": n, "K": k}, notes=notes)

    for m, why in (
        (15, "below one MFMA tile"),
        (17, "past one MFMA tile"),
        (33, "past a low tile"),
        (65536, "huge M"),
    ):
        yield cell(m, 1024, 1024, "bf16", why)
    yield cell(128, 1088, 1024, "bf16", "N a multiple of 64, not of 128")
    yield cell(128, 1000, 1024, "bf16", "N a multiple of 8 only")
    yield cell(128, 1024, 1056, "bf16", "K a multiple of 32, not of 64")
    yield cell(128, 1024, 64, "bf16", "one step of K")
    yield cell(256, 1024, 1024, "f16", "dtype variant")


def _vec_add() -> Iterator[Cell]:
    for n, why in (
        (1, "one element"),
        (TILE - 1, "odd, below one block"),
        (TILE, "one block of vectors"),
        (TILE + 8, "one vector past a block"),
        (2**20 + 1, "odd and large"),
        (2**27, "huge"),
    ):
        yield Cell(dtype="bf16", args={"N": n}, notes=why)
    yield Cell(dtype="f16", args={"N": 2**20}, notes="dtype variant")
    yield Cell(dtype="f32", args={"N": 2**20}, notes="dtype variant")


PROBES: Mapping[str, Callable[[], Iterator[Cell]]] = {
    "gemm": _gemm,
    "rmsnorm": lambda: _rows(eps=True),
    "softmax": lambda: _rows(eps=False),
    "vec_add": _vec_add,
}


def drafts(op: str) -> list[Draft]:
    """The op's probes as drafts. Raises KeyError for an op without any."""
    return [
        Draft(
            op_type=op,
            model="synthetic",
            stage="synthetic",
            dtype=cell.dtype,
            args=cell.args,
            kernel_name=cell.kernel_name,
            source=Source(kind="synthetic"),
            notes=cell.notes,
        )
        for cell in PROBES[op]()
    ]
