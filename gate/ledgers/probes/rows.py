"""Probes of the ops that go over rows or elements.

FlyDSL's row kernels take 256 threads with 16-byte vectors: a tile of 2048 16-bit elements. RMSNorm has a kernel of
its own up to N = 2048; beyond, and in softmax, N a multiple of the tile is loaded in vectors and any other N
element by element. LayerNorm's vector path is for N = 8192 alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gate.ledgers.ops.norms import EPS
from gate.ledgers.ops.point import Cell
from gate.model.shape import ArgValue

TILE = 2048
LAYERNORM_FAST = 8192


def _row_probes(more: dict[str, ArgValue], *, dtypes: tuple[str, ...]) -> Iterator[Cell]:
    def cell(m: int, n: int, dtype: str, notes: str) -> Cell:
        return Cell(dtype=dtype, args={"M": m, "N": n, **more}, notes=notes)

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
    for dtype in dtypes:
        yield cell(256, 2 * TILE, dtype, "dtype variant")
    if "f32" in dtypes:
        yield cell(256, TILE // 2, "f32", "exactly one tile of 32 bits")


def rmsnorm() -> Iterator[Cell]:
    """RMSNorm."""
    return _row_probes({"eps": EPS}, dtypes=("f16", "f32"))


def coded_norm() -> Iterator[Cell]:
    """A normalisation that puts out 8-bit codes: integers, and floats as its variant."""
    yield from _row_probes({"eps": EPS, "out_dtype": "int8"}, dtypes=("f16",))
    yield Cell(dtype="bf16", args={"M": 256, "N": 2 * TILE, "eps": EPS, "out_dtype": "fp8"}, notes="output variant")


def softmax() -> Iterator[Cell]:
    """Softmax."""
    return _row_probes({}, dtypes=("f16", "f32"))


def quant() -> Iterator[Cell]:
    """Per-token quantisation: to 8-bit integers, and to 8-bit floats as its variant."""
    yield from _row_probes({"out_dtype": "int8"}, dtypes=("f16",))
    for m in (1, 2048):
        yield Cell(dtype="bf16", args={"M": m, "N": 8192, "out_dtype": "fp8"}, notes="output variant")


def layernorm() -> Iterator[Cell]:
    """LayerNorm, with the edges of its one fast width besides."""
    yield from _row_probes({"eps": EPS}, dtypes=("f16", "f32"))
    for n in (LAYERNORM_FAST - 8, LAYERNORM_FAST, LAYERNORM_FAST + 8):
        yield Cell(dtype="bf16", args={"M": 64, "N": n, "eps": EPS}, notes="around the fast width")


def vec_add() -> Iterator[Cell]:
    """Element-wise addition."""
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


CODED = tuple(
    f"{norm}{added}_{kind}quant"
    for norm in ("rmsnorm", "layernorm")
    for added in ("", "_fused_add")
    for kind in ("dynamic", "smooth")
)
ROW_PROBES: dict[str, Callable[[], Iterator[Cell]]] = {
    **dict.fromkeys(CODED, coded_norm),
    "fused_add_rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "layernorm_fused_add": layernorm,
    "quant": quant,
    "rmsnorm": rmsnorm,
    "rmsnorm_bwd": rmsnorm,
    "softmax": softmax,
    "vec_add": vec_add,
}
