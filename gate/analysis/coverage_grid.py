"""Which provider has what on which shape: the grid of states, and why a provider has no column."""

from __future__ import annotations

from collections.abc import Sequence

from gate.analysis.arm import Arm, arm
from gate.analysis.book import Book
from gate.analysis.cells import Cell
from gate.model.matrix import Matrix
from gate.model.report import OpCover, ShapeCover

MISSING = "missing"
NO_REASON = "switched off in the matrix"


def cover(op: str, cells: Sequence[Cell], book: Book, matrix: Matrix) -> OpCover:
    """The coverage of one op in one run: a column for each enabled provider, the candidate first."""
    enabled = [name for name in matrix.enabled if name != matrix.candidate_provider]
    columns = (matrix.candidate_provider, *enabled)
    shapes = tuple(_shape(cell, columns, book) for cell in cells)
    counts: dict[str, dict[str, int]] = {name: {} for name in columns}
    for shape in shapes:
        for name, state in zip(columns, shape.states, strict=True):
            counts[name][state] = counts[name].get(state, 0) + 1
    off = {
        name: " ".join((entry.skip_reason or NO_REASON).split())
        for name, entry in matrix.providers.items()
        if name not in columns
    }
    return OpCover(
        op_type=op,
        candidate=matrix.candidate_provider,
        providers=columns,
        off=off,
        shapes=shapes,
        counts=counts,
    )


def _shape(cell: Cell, columns: Sequence[str], book: Book) -> ShapeCover:
    arms = [_arm(cell, name, book) for name in columns]
    return ShapeCover(
        shape_id=cell.shape.shape_id,
        states=tuple(state(one) for one in arms),
        times_us=tuple(one.time_us for one in arms),
    )


def _arm(cell: Cell, name: str, book: Book) -> Arm:
    known = cell.head.get(name)
    return known if known is not None else arm(book, shape_id=cell.shape.shape_id, provider=name)


def state(one: Arm) -> str:
    """The state in a word: the status of the row, why an ok row does not count, or that there is none."""
    if one.state == "unusable":
        return one.reasons[0]
    if one.outcome is None:
        return MISSING
    return "incorrect" if one.state == "incorrect" else one.outcome.benchmark_status
