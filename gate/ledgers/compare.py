"""Knows what two ledgers differ in: rows that are new, gone or changed, and the fields that changed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gate.ledgers.draft import physical
from gate.model.shape import Shape

FIELDS = tuple(name for name in Shape.__struct_fields__ if name != "shape_id")


class ChangedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row with the same id in both ledgers and what differs besides."""

    shape: Shape
    fields: tuple[str, ...]


class RenamedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The same physical shape under another id: the model names or the stage differ."""

    old: Shape
    new: Shape


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """OLD against NEW. A renamed row is neither among `added` nor among `removed`."""

    added: tuple[Shape, ...]
    removed: tuple[Shape, ...]
    changed: tuple[ChangedRow, ...]
    renamed: tuple[RenamedRow, ...]
    same: int

    @property
    def empty(self) -> bool:
        """Whether the two say the same."""
        return not (self.added or self.removed or self.changed or self.renamed)


def compare(old: Iterable[Shape], new: Iterable[Shape], *, same: int = 0) -> Difference:
    """What going from `old` to `new` changes, row by row. `same` counts equal rows left out of both."""
    before = {shape.shape_id: shape for shape in old}
    after = {shape.shape_id: shape for shape in new}
    both = [(before[key], after[key]) for key in before if key in after]
    changed = tuple(
        ChangedRow(shape=new_row, fields=fields) for old_row, new_row in both if (fields := _fields(old_row, new_row))
    )
    gone = {physical(row): row for key, row in before.items() if key not in after}
    added: list[Shape] = []
    renamed: list[RenamedRow] = []
    for key, row in after.items():
        if key not in before:
            twin = gone.pop(physical(row), None)
            if twin is None:
                added.append(row)
            else:
                renamed.append(RenamedRow(old=twin, new=row))
    paired = {row.old.shape_id for row in renamed}
    removed = tuple(row for key, row in before.items() if key not in after and key not in paired)
    return Difference(
        added=tuple(added),
        removed=removed,
        changed=changed,
        renamed=tuple(renamed),
        same=same + len(both) - len(changed),
    )


def _fields(old: Shape, new: Shape) -> tuple[str, ...]:
    return tuple(name for name in FIELDS if getattr(old, name) != getattr(new, name))
