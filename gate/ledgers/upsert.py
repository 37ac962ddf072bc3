"""Knows how an import changes a ledger: it replaces its own source kind's rows and leaves all others."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gate.model.shape import Shape, order_key


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger after an import and what became of it, in rows.

    `elsewhere` counts imported rows that stood in the ledger already under another source kind: those are kept,
    and take over a weight that they lacked.
    """

    shapes: list[Shape]
    added: int
    removed: int
    changed: int
    unchanged: int
    kept: int
    elsewhere: int


def upsert(old: Iterable[Shape], new: Iterable[Shape], *, kinds: frozenset[str]) -> Change:
    """Replaces the rows of `kinds` in `old` by `new`; one row per shape_id, in the ledger's stable order.

    The same import twice gives the same rows.
    """
    kept: dict[str, Shape] = {}
    previous: dict[str, Shape] = {}
    for shape in old:
        (previous if shape.source.kind in kinds else kept)[shape.shape_id] = shape
    fresh: dict[str, Shape] = {}
    elsewhere = 0
    for shape in new:
        there = kept.get(shape.shape_id)
        if there is None:
            fresh.setdefault(shape.shape_id, shape)
            continue
        elsewhere += 1
        if there.weight.value is None and shape.weight.value is not None:
            kept[shape.shape_id] = msgspec.structs.replace(there, weight=shape.weight)
    changed = sum(1 for key, shape in fresh.items() if key in previous and previous[key] != shape)
    both = len(fresh.keys() & previous.keys())
    return Change(
        shapes=sorted([*kept.values(), *fresh.values()], key=order_key),
        added=len(fresh) - both,
        removed=len(previous) - both,
        changed=changed,
        unchanged=both - changed,
        kept=len(kept),
        elsewhere=elsewhere,
    )
