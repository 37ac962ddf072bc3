"""Shapes of the ops that go over rows or elements: norms, softmax, quantisation, element-wise addition."""

from __future__ import annotations

from collections.abc import Iterator

from gate.ledgers.facts import Model
from gate.ledgers.ops.point import Cell, Derive, Point, shard
from gate.model.shape import ArgValue

# The epsilon every norm is measured with: kernels compile it in, and 1e-5 or 1e-6 costs the same.
EPS = 1e-5


def rmsnorm(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """RMSNorm over the residual stream, over MLA's two latents, and over each head where the model has that.

    Tensor parallelism shards heads and never the normalised axis.
    """
    if model.norm == "rmsnorm":
        yield _norm(at.tokens, model.hidden, dtype, "residual stream")
    if model.mla is not None:
        if model.mla.q_lora is not None:
            yield _norm(at.tokens, model.mla.q_lora, dtype, "query latent")
        yield _norm(at.tokens, model.mla.kv_lora, dtype, "key/value latent")
    if model.qk_norm:
        for heads, what in ((model.heads, "query heads"), (model.kv_heads, "key heads")):
            yield _norm(at.tokens * shard(heads, at.tp), model.head_dim, dtype, what)


def stream(norm: str, **more: ArgValue) -> Derive:
    """A normalisation over the residual stream of the models that use `norm`, with `more` arguments.

    What is fused with it, the residual addition or 8-bit codes, changes no dimension.
    """

    def cells(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
        if model.norm == norm:
            args = {"M": at.tokens, "N": model.hidden, "eps": EPS, **more}
            yield Cell(dtype=dtype, args=args, notes="residual stream")

    return cells


def _norm(m: int, n: int, dtype: str, notes: str) -> Cell:
    return Cell(dtype=dtype, args={"M": m, "N": n, "eps": EPS}, notes=notes)


def softmax(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """Softmax over router logits (where the router scores with it), unfused attention scores, sampled logits."""
    if model.moe is not None and model.moe.scoring == "softmax":
        yield Cell(dtype=dtype, args={"M": at.tokens, "N": model.moe.experts}, notes="router logits")
    if at.context is not None:
        rows = at.tokens * shard(model.heads, at.tp)
        yield Cell(dtype=dtype, args={"M": rows, "N": at.context}, notes="attention scores, unfused")
    if at.phase == "decode" and model.vocab:
        yield Cell(dtype=dtype, args={"M": at.tokens, "N": model.vocab}, notes="logits before sampling")


def quant(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """Per-token quantisation to 8-bit integers of what goes into each product: the residual stream, the attention
    output and the feed-forward block's inside; the latter two are one rank's share.
    """
    widths = {"residual stream": model.hidden}
    value_dim = model.head_dim if model.mla is None else model.mla.v
    widths["attention output"] = shard(model.heads, at.tp) * value_dim
    if model.intermediate is not None:
        widths["feed-forward inside"] = shard(model.intermediate, at.tp)
    for what, width in widths.items():
        yield Cell(dtype=dtype, args={"M": at.tokens, "N": width, "out_dtype": "int8"}, notes=what)


def vec_add(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """The residual addition: every element of the stream."""
    yield Cell(dtype=dtype, args={"N": at.tokens * model.hidden}, notes="residual addition")


CODES: dict[str, ArgValue] = {"out_dtype": "int8"}
STREAMS: dict[str, Derive] = {
    "fused_add_rmsnorm": stream("rmsnorm"),
    "layernorm": stream("layernorm"),
    "layernorm_dynamicquant": stream("layernorm", **CODES),
    "layernorm_fused_add": stream("layernorm"),
    "layernorm_fused_add_dynamicquant": stream("layernorm", **CODES),
    "layernorm_fused_add_smoothquant": stream("layernorm", **CODES),
    "layernorm_smoothquant": stream("layernorm", **CODES),
    "rmsnorm_bwd": stream("rmsnorm"),
    "rmsnorm_dynamicquant": stream("rmsnorm", **CODES),
    "rmsnorm_fused_add_dynamicquant": stream("rmsnorm", **CODES),
    "rmsnorm_fused_add_smoothquant": stream("rmsnorm", **CODES),
    "rmsnorm_smoothquant": stream("rmsnorm", **CODES),
}
