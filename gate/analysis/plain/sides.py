"""Which plain row belongs to which ledger shape, and which shapes have anything about them that is not plain."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from gate.analysis.plain.columns import Columns, Places, keys_of
from gate.model.ledger import Ledger
from gate.model.outcome import Measured

Mask = NDArray[np.bool_]


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One run against the ledger: `place` the ledger's index of each plain row (-1: a stranger), `at` the row of each
    shape by provider (-1: none), `odd` the shapes with rows that are not plain, refused, or there twice."""

    columns: Columns
    place: Places
    at: dict[str, Places]
    odd: Mask

    def kind(self, rows: Places) -> Places:
        """The kind of each of some rows."""
        return self.columns.kind[rows]


class Index:
    """The ledger's shape_ids, for finding rows."""

    def __init__(self, ledger: Ledger) -> None:
        self.ids = [shape.shape_id for shape in ledger.shapes]
        keys = keys_of(self.ids)
        assert keys is not None, "a ledger's ids are checked when it is read"
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        self._number: dict[str, int] | None = None

    def places(self, columns: Columns) -> Places:
        """The ledger's index of each plain row, -1 where the ledger does not ask for it."""
        found = np.minimum(np.searchsorted(self._sorted, columns.keys), max(len(self.ids) - 1, 0))
        if not self.ids:
            return np.full(len(columns.keys), -1, dtype=np.int64)
        return np.where(self._sorted[found] == columns.keys, self._order[found], -1)

    def mark(self, mask: Mask, shape_ids: Iterable[str | None]) -> None:
        """Sets the mask at some shapes."""
        for shape_id in shape_ids:
            if self._number is None:
                self._number = {name: number for number, name in enumerate(self.ids)}
            number = self._number.get(shape_id or "")
            if number is not None:
                mask[number] = True


def side(columns: Columns, index: Index) -> Side:
    """The rows of one run, placed."""
    n, place = len(index.ids), index.places(columns)
    names = sorted({kind.provider for kind in columns.kinds})
    number = np.array([names.index(kind.provider) for kind in columns.kinds], dtype=np.int64)
    of = number[columns.kind] if len(columns.kind) else np.empty(0, dtype=np.int64)
    odd = np.zeros(n, dtype=bool)
    at: dict[str, Places] = {}
    for position, name in enumerate(names):
        rows = np.flatnonzero((of == position) & (place >= 0))
        at[name] = np.full(n, -1, dtype=np.int64)
        at[name][place[rows]] = rows
        odd |= np.bincount(place[rows], minlength=n) > 1
    index.mark(odd, (row.shape_id for row in columns.rest))
    index.mark(odd, (problem.shape_id for problem in columns.problems))
    return Side(columns=columns, place=place, at=at, odd=odd)


def of_pairs(
    one: tuple[Measured, ...], other: tuple[Measured, ...], test: Callable[[Measured, Measured], bool]
) -> Mask:
    """The test of every kind of one side with every kind of the other, as a table."""
    return np.array([[test(a, b) for b in other] for a in one], dtype=bool).reshape(len(one), len(other))


def left_over(side: Side, plain: Mask) -> list[Measured]:
    """The rows that are not judged as columns, as records: all but those of plain shapes."""
    there = np.flatnonzero((side.place < 0) | ~plain[side.place])
    return side.columns.rows(there)


def kinds_of(side: Side, plain: Mask) -> list[Measured]:
    """The kinds that rows of plain shapes have."""
    there = (side.place >= 0) & plain[side.place]
    return [side.columns.kinds[number] for number in np.unique(side.columns.kind[there]).tolist()]
