"""Probes of the matrix products and of mixture-of-experts layers.

FlyDSL's products step over K by whole tiles (K % 64 for 16 bits, K % 128 for 8), take N in whole tiles, and mask
the last tile of M. The native MoE stages need K an even multiple of their K tile (128 or 256). The gating kernel
has a layout only where experts / VPT is a power of two up to 64 for a VPT of 1 to 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gate.ledgers.ops.point import Args, Cell


def _product(m: int, n: int, k: int, dtype: str, notes: str) -> Cell:
    return Cell(dtype=dtype, args={"M": m, "N": n, "K": k}, notes=notes)


def gemm() -> Iterator[Cell]:
    """16-bit products."""
    for m, why in ((15, "below one MFMA tile"), (17, "past one MFMA tile"), (33, "past a low tile"), (65536, "huge M")):
        yield _product(m, 1024, 1024, "bf16", why)
    yield _product(128, 1088, 1024, "bf16", "N a multiple of 64, not of 128")
    yield _product(128, 1000, 1024, "bf16", "N a multiple of 8 only")
    yield _product(128, 1024, 1056, "bf16", "K a multiple of 32, not of 64")
    yield _product(128, 1024, 64, "bf16", "one step of K")
    yield _product(256, 1024, 1024, "f16", "dtype variant")


def _eight_bit(variants: tuple[str, ...]) -> Iterator[Cell]:
    for m, why in ((15, "below one MFMA tile"), (129, "past a tile"), (5133, "M no multiple of any tile")):
        yield _product(m, 5120, 8192, "fp8", why)
    yield _product(5120, 2048, 8320, "fp8", "an odd number of K tiles")
    yield _product(512, 2112, 7168, "fp8", "N a multiple of 64, not of 128")
    yield _product(256, 1024, 1088, "fp8", "K a multiple of 64, not of 128")
    yield _product(256, 1024, 128, "fp8", "one step of K")
    yield _product(65536, 1024, 1024, "fp8", "huge M")
    for dtype in variants:
        yield _product(1024, 5120, 8192, dtype, "dtype variant")


def batched_gemm() -> Iterator[Cell]:
    """One product per batch entry."""
    for b, m, why in (
        (1, 128, "one entry"),
        (16, 15, "below one MFMA tile"),
        (16, 4097, "past a tile"),
        (257, 1, "many"),
    ):
        yield Cell(dtype="bf16", args={"B": b, "M": m, "N": 512, "K": 128}, notes=why)
    for dtype in ("f16", "int8", "fp4", "mixed_a16w4"):
        yield Cell(dtype=dtype, args={"B": 16, "M": 256, "N": 512, "K": 128}, notes="dtype variant")


def _experts(dtypes: tuple[str, ...]) -> Iterator[Cell]:
    def cell(m: int, experts: int, dim1: int, dim2: int, topk: int, dtype: str, notes: str) -> Cell:
        args: Args = {"M": m, "E": experts, "Dim1": dim1, "Dim2": dim2, "TopK": topk}
        return Cell(dtype=dtype, args=args, notes=notes)

    first = dtypes[0]
    yield cell(1, 8, 4096, 4096, 2, first, "one token")
    yield cell(129, 8, 1024, 512, 2, first, "one token past a tile")
    yield cell(333, 17, 4096, 4096, 9, first, "odd numbers of tokens, experts and choices")
    yield cell(256, 8, 1152, 512, 2, first, "an odd number of K tiles in stage 1")
    yield cell(256, 8, 1024, 640, 2, first, "inside no multiple of 256")
    yield cell(64, 4, 256, 256, 4, first, "every expert chosen")
    yield cell(32768, 32, 2048, 1024, 4, first, "many tokens")
    for dtype in dtypes[1:]:
        yield cell(256, 8, 4096, 4096, 2, dtype, "dtype variant")


def topk_gating_softmax() -> Iterator[Cell]:
    """The router's choice: layouts that exist, one that does not, and the ends of topk."""

    def cell(tokens: int, experts: int, topk: int, dtype: str, notes: str) -> Cell:
        return Cell(dtype=dtype, args={"num_tokens": tokens, "num_experts": experts, "topk": topk}, notes=notes)

    for experts, why in (
        (8, "the narrowest layout"),
        (64, "half a wave of layout"),
        (256, "16 elements a thread"),
        (384, "no layout: not a power of two"),
        (1024, "the widest layout"),
        (2048, "past the widest layout"),
    ):
        yield cell(256, experts, min(8, experts), "bf16", why)
    yield cell(256, 128, 1, "bf16", "one choice")
    yield cell(256, 16, 16, "bf16", "every expert chosen")
    yield cell(33, 128, 8, "bf16", "one token past a block")
    yield cell(65536, 128, 8, "bf16", "many tokens")
    for dtype in ("f16", "f32"):
        yield cell(256, 256, 8, dtype, "dtype variant")


def moe_reduce() -> Iterator[Cell]:
    """The sum over experts, around its tile of 2048 16-bit elements."""

    def cell(tokens: int, topk: int, dim: int, dtype: str, notes: str) -> Cell:
        return Cell(dtype=dtype, args={"num_tokens": tokens, "topk": topk, "model_dim": dim}, notes=notes)

    for dim, why in (
        (2048, "exactly one tile"),
        (2056, "one vector past a tile"),
        (2040, "one vector short of a tile"),
    ):
        yield cell(256, 8, dim, "bf16", why)
    yield cell(256, 1, 4096, "bf16", "nothing to sum")
    yield cell(256, 16, 4096, "bf16", "many choices")
    yield cell(32769, 8, 7168, "bf16", "past 4 GiB of input")
    for dtype in ("f16", "f32"):
        yield cell(256, 8, 4096, dtype, "dtype variant")


def moe_sorting() -> Iterator[Cell]:
    """Sorting by expert, around the tokens that FlyDSL's kernels change paths at (16 and 2048)."""

    def cell(tokens: int, experts: int, topk: int, notes: str) -> Cell:
        args: dict[str, int] = {"num_tokens": tokens, "num_experts": experts, "topk": topk}
        return Cell(dtype="bf16", args={**args, "unit_size": 32, "model_dim": 4096}, notes=notes)

    for tokens, why in (
        (16, "last of one kernel"),
        (17, "first of two"),
        (2048, "last of two"),
        (2049, "first of four"),
    ):
        yield cell(tokens, 256, 8, why)
    yield cell(256, 8, 1, "one choice")
    yield cell(256, 512, 16, "many experts and choices")
    yield cell(1, 8, 8, "one token to every expert")


PRODUCT_PROBES: dict[str, Callable[[], Iterator[Cell]]] = {
    "batched_gemm": batched_gemm,
    "blockscale_preshuffle_gemm": lambda: _eight_bit(()),
    "fp8_gemm_rowscale": lambda: _eight_bit(()),
    "gemm": gemm,
    "moe_blockscale": lambda: _experts(("fp8",)),
    "moe_gemm": lambda: _experts(("fp8", "int8", "mixed_a8w4", "fp4")),
    "moe_reduce": moe_reduce,
    "moe_sorting": moe_sorting,
    "preshuffle_gemm": lambda: _eight_bit(("bf16", "f16", "int8", "fp4")),
    "topk_gating_softmax": topk_gating_softmax,
}
