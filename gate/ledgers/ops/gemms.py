"""Shapes of the matrix products: which weights a model has and how tensor parallelism splits them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gate.ledgers.facts import Model
from gate.ledgers.ops.point import Cell, Point, shard


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """One weight of N outputs by K inputs, as one rank holds it."""

    n: int
    k: int
    what: str


def attention_weights(model: Model, tp: int) -> Iterator[Weights]:
    """Projections into and out of attention. Query heads are split; key/value heads too, and repeated where
    there are fewer of them than ranks; MLA's down-projections are held whole by every rank.
    """
    heads = shard(model.heads, tp)
    if model.mla is None:
        kv_heads = shard(model.kv_heads, tp)
        yield Weights(n=(heads + 2 * kv_heads) * model.head_dim, k=model.hidden, what="qkv")
        yield Weights(n=model.hidden, k=heads * model.head_dim, what="attention out")
        return
    mla = model.mla
    query = heads * (mla.nope + mla.rope)
    if mla.q_lora is None:
        yield Weights(n=query, k=model.hidden, what="query")
        yield Weights(n=mla.kv_lora + mla.rope, k=model.hidden, what="key/value down")
    else:
        yield Weights(n=mla.q_lora + mla.kv_lora + mla.rope, k=model.hidden, what="query and key/value down")
        yield Weights(n=query, k=mla.q_lora, what="query up")
    yield Weights(n=heads * (mla.nope + mla.v), k=mla.kv_lora, what="key/value up")
    yield Weights(n=model.hidden, k=heads * mla.v, what="attention out")


def dense_weights(model: Model, tp: int) -> Iterator[Weights]:
    """The dense feed-forward block and the experts that every token visits: gate and up fused, then down."""
    if model.intermediate is not None:
        yield from _gated(model.hidden, shard(model.intermediate, tp), "feed-forward")
    if model.moe is not None and model.moe.shared:
        yield from _gated(model.hidden, shard(model.moe.intermediate * model.moe.shared, tp), "shared expert")


def _gated(hidden: int, width: int, what: str) -> Iterator[Weights]:
    yield Weights(n=2 * width, k=hidden, what=f"{what} gate and up")
    yield Weights(n=hidden, k=width, what=f"{what} down")


def router_weights(model: Model) -> Iterator[Weights]:
    """The router: small, held whole by every rank, and kept in 16 bits where all else is quantised."""
    if model.moe is not None:
        yield Weights(n=model.moe.experts, k=model.hidden, what="router")


def gemm(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """16-bit products: attention, dense blocks and the router."""
    yield from quantised_gemm(model, at, dtype)
    yield from _cells(at, dtype, router_weights(model))


def quantised_gemm(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """Products of quantised weights: all but the router, which stays in 16 bits."""
    yield from _cells(at, dtype, attention_weights(model, at.tp))
    yield from _cells(at, dtype, dense_weights(model, at.tp))


def batched_gemm(model: Model, at: Point, dtype: str) -> Iterator[Cell]:
    """MLA's absorbed products, one a head: queries into the latent space before attention, out of it after."""
    if model.mla is None:
        return
    heads, mla = shard(model.heads, at.tp), model.mla
    for n, k, what in ((mla.kv_lora, mla.nope, "query into latent"), (mla.v, mla.kv_lora, "value out of latent")):
        yield Cell(dtype=dtype, args={"B": heads, "M": at.tokens, "N": n, "K": k}, notes=what)


def _cells(at: Point, dtype: str, weights: Iterator[Weights]) -> Iterator[Cell]:
    for weight in weights:
        yield Cell(dtype=dtype, args={"M": at.tokens, "N": weight.n, "K": weight.k}, notes=weight.what)
