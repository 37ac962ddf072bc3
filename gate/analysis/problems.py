"""What a judgement tells of its inputs: refused rows, rows that nobody asked for, a design that cannot fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from gate.analysis.book import Book
from gate.analysis.controls import Controls
from gate.model.ledger import Ledger
from gate.model.policy import Policy
from gate.model.problem import Problem
from gate.model.text import counted
from gate.model.waiver import Waiver

MOST_PROBLEMS = 200
MOST_NAMES = 5


def told(
    base: Sequence[Problem],
    head: Sequence[Problem],
    ledger: Ledger,
    books: tuple[Book, Book],
    *,
    moved: Controls,
    policy: Policy,
    waivers: Sequence[Waiver],
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
        *_unknown(ledger, wanted, policy, waivers),
        *(f"{name} changed its own version between base and head, so it is no control" for name in moved.stale),
    ]
    return (*listed, refused_design) if refused_design else tuple(listed)


def _unknown(ledger: Ledger, wanted: set[str], policy: Policy, waivers: Sequence[Waiver]) -> list[str]:
    """What policy and waivers name and no row of the ledger is: a slip of the pen, or a row that is gone."""
    ops = {shape.op_type for shape in ledger.shapes} if policy.ceilings.ops else set()
    named = (
        ("policy", "ceilings.ops", [op for op in policy.ceilings.ops if op not in ops]),
        ("policy", "ceilings.shapes", [shape_id for shape_id in policy.ceilings.shapes if shape_id not in wanted]),
        ("policy", "hot.shapes", [shape_id for shape_id in policy.hot.shapes if shape_id not in wanted]),
        ("waivers", "shape_id", [waiver.shape_id for waiver in waivers if waiver.shape_id not in wanted]),
    )
    return [
        f"{file}: {key} names {', '.join(sorted(set(names))[:MOST_NAMES])}"
        f"{f' and {more} more' if (more := len(set(names)) - MOST_NAMES) > 0 else ''}, which no row of the ledger is"
        for file, key, names in named
        if names
    ]


def _listed(side: str, problems: Sequence[Problem]) -> list[str]:
    """Problems with the name of their file and without its folder, which may differ between equal inputs."""
    lines = [
        f"{side} {PurePath(problem.file).name}{f':{problem.line}' if problem.line is not None else ''}: {problem.what}"
        for problem in problems[:MOST_PROBLEMS]
    ]
    more = len(problems) - len(lines)
    return [*lines, f"{side}: {counted(more, 'more problem')}"] if more > 0 else lines


def _strangers(side: str, book: Book, wanted: set[str]) -> list[str]:
    """Rows that the ledger does not ask for."""
    strange = sorted(set().union(*(of_provider.keys() - wanted for of_provider in book.rows.values())))
    if not strange:
        return []
    return [f"{side}: rows of {counted(len(strange), 'shape')} that the ledger does not hold, such as {strange[0]}"]
