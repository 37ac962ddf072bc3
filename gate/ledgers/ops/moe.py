"""Shapes of mixture-of-experts layers: the router's choice, the grouped products, the sum over chosen experts."""

from __future__ import annotations

from collections.abc import Iterator

from gate.ledgers.facts import Model
from gate.ledgers.ops.point import Args, Cell, Point, shard


def topk_gating_softmax(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """Softmax over the experts and choice of the best; models that score with a sigmoid use another kernel."""
    if model.moe is not None and model.moe.scoring == "softmax":
        args: Args = {"num_tokens": at.tokens, "num_experts": model.moe.experts, "topk": model.moe.topk}
        yield Cell(dtype=dtype, args=args, notes="router")


# Rows of a tile of the grouped products, which every expert's share is padded to.
UNIT_SIZE = 32


def moe_sorting(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """The tokens of a step sorted by their experts, before the grouped products."""
    if model.moe is not None:
        args: Args = {
            "num_tokens": at.tokens,
            "num_experts": model.moe.experts,
            "topk": model.moe.topk,
            "unit_size": UNIT_SIZE,
            "model_dim": model.hidden,
        }
        yield Cell(dtype=dtype, args=args, notes="sorting by expert")


def moe_gemm(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """Both grouped products of the experts: Dim1 is the hidden width, Dim2 gate and up together.

    Tensor parallelism shards Dim2 and nothing else.
    """
    if model.moe is not None:
        args: Args = {
            "M": at.tokens,
            "E": model.moe.experts,
            "Dim1": model.hidden,
            "Dim2": shard(2 * model.moe.intermediate, at.tp),
            "TopK": model.moe.topk,
        }
        yield Cell(dtype=dtype, args=args, notes="experts")


def moe_reduce(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """The weighted outputs of each token's experts summed; with one expert a token there is nothing to sum."""
    if model.moe is not None and model.moe.topk > 1:
        args: Args = {"num_tokens": at.tokens, "topk": model.moe.topk, "model_dim": model.hidden}
        yield Cell(dtype=dtype, args=args, notes="sum over experts")
