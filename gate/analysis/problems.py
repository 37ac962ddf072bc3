"""What a judgement tells of its inputs: refused rows, rows that nobody asked for, a design that cannot fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from gate.analysis.book import Book
from gate.analysis.controls import Controls
from gate.model.ledger import Ledger
from gate.model.problem import Problem

MOST_PROBLEMS = 200


def told(
    base: Sequence[Problem],
    head: Sequence[Problem],
    ledger: Ledger,
    books: tuple[Book, Book],
    *,
    moved: Controls,
    refused_design: str | None,
) -> tuple[str, ...]:
    """One line for each thing, the refused rows of ledger, base and head first."""
    wanted = {shape.shape_id for shape in ledger.shapes}
    listed = [
        *_listed("ledger", ledger.problems),
        *_listed("base", base),
        *_listed("head", head),
        *_strangers("base", books[0], wanted),
        *_strangers("head", books[1], wanted),
        *(f"{name} changed its own version between base and head, so it is no control" for name in moved.stale),
    ]
    return (*listed, refused_design) if refused_design else tuple(listed)


def _listed(side: str, problems: Sequence[Problem]) -> list[str]:
    """Problems with the name of their file and without its folder, which may differ between equal inputs."""
    lines = [
        f"{side} {PurePath(problem.file).name}{f':{problem.line}' if problem.line is not None else ''}: {problem.what}"
        for problem in problems[:MOST_PROBLEMS]
    ]
    more = len(problems) - len(lines)
    return [*lines, f"{side}: {more} more problems"] if more > 0 else lines


def _strangers(side: str, book: Book, wanted: set[str]) -> list[str]:
    """Rows that the ledger does not ask for."""
    strange = sorted(set().union(*(of_provider.keys() - wanted for of_provider in book.rows.values())))
    if not strange:
        return []
    return [f"{side}: rows of {len(strange)} shapes that the ledger does not hold, such as {strange[0]}"]
