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


def digest(shape: Shape) -> int:
    """A number that differs where two rows of this process differ in any field."""
    return hash(msgspec.json.encode(shape, order="sorted"))


def upsert(old: Iterable[Shape], new: Iterable[Shape], *, kinds: frozenset[str]) -> Change:
    """Replaces the rows of `kinds` in `old` by `new`; one row per shape_id, in the ledger's stable order.

    The same import twice gives the same rows.
    """
    kept: dict[str, Shape] = {}
    # Of rows that are replaced only a digest is held, so that a large ledger is not in memory twice.
    previous: dict[str, int] = {}
    for shape in old:
        if shape.source.kind in kinds:
            previous[shape.shape_id] = digest(shape)
        else:
            kept[shape.shape_id] = shape
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
    changed = sum(1 for key, shape in fresh.items() if key in previous and previous[key] != digest(shape))
    both = len(fresh.keys() & previous.keys())
    shapes = [*kept.values(), *fresh.values()]
    shapes.sort(key=order_key)
    return Change(
        shapes=shapes,
        added=len(fresh) - both,
        removed=len(previous) - both,
        changed=changed,
        unchanged=both - changed,
        kept=len(kept),
        elsewhere=elsewhere,
    )
