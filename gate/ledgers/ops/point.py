"""Where a model is looked at: tokens, tensor parallelism, batch and context; and the shape found there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from gate.ledgers.facts import Model
from gate.model.shape import LARGEST, ArgValue


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One forward step. `tokens` go through the dense layers together; in decode there is one a request, so the
    batch is `tokens`. `context` is how many tokens of cache each request attends to; `tp` the ranks of tensor
    parallelism. `phase` tells a step that fills the cache from one that adds a token to each request.
    """

    tokens: int
    tp: int = 1
    phase: str = "prefill"
    batch: int = 1
    context: int | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A shape that one model needs at a point; `notes` says what for."""

    dtype: str
    args: dict[str, ArgValue]
    notes: str = ""
    kernel_name: str = ""


Args = dict[str, ArgValue]

# What an op derives from a model at a point, for one dtype; nothing where the model has no such layer.
Derive = Callable[[Model, Point, str], Iterator[Cell]]


def size(value: object, what: str) -> int:
    """`value` as a dimension. Raises ValueError if it is not a whole number from 1 to `LARGEST`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise ValueError(f"{what} is {str(value)[:40]!r}, not a positive whole number up to 2^40")
    return value


def shard(value: int, ranks: int) -> int:
    """A dimension split over `ranks`; never less than one, as a head that cannot be split is repeated."""
    return max(value // ranks, 1)
