"""The table of ops by providers: wired or absent with its reason, and what is known of each wired one; no empty cell.

Wired is read from the providers' sources: a provider's module defines a kernel under the op's name, which is how an
entry point names it. Why a provider is absent is the matrix's own reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gate.contracts.calls import PROVIDERS

# What a cell may know beside being wired, in the order in which it says so.
EVIDENCE = ("gfx950", "correct", "signature")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One op at one provider. `absent` is the reason where it is not wired; `known` holds words by kind of evidence."""

    op: str
    provider: str
    absent: str | None
    known: Mapping[str, str]

    @property
    def text(self) -> str:
        """The cell in one line."""
        if self.absent is not None:
            return "absent"
        return " · ".join(["wired", *(self.known[kind] for kind in EVIDENCE if kind in self.known)])


def wired(ops: Iterable[str], providers: Iterable[str], folder: Path = PROVIDERS) -> frozenset[tuple[str, str]]:
    """(op, provider) of every kernel that a provider's sources define under the op's name."""
    wanted = set(ops)
    return frozenset(
        (name, provider)
        for provider in providers
        for path in sorted([folder / f"{provider}.py", *(folder / provider).glob("*.py")])
        if path.is_file()
        for name in _defined(ast.parse(path.read_text("utf-8"))) & wanted
    )


def _defined(tree: ast.Module) -> set[str]:
    """Names that a module binds to a decorated function or to what a call returns."""
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            found |= {item.id for item in node.targets if isinstance(item, ast.Name)}
    return found


def table(
    ops: list[str],
    providers: Iterable[str],
    *,
    reasons: Mapping[tuple[str, str], str],
    known: Mapping[tuple[str, str], Mapping[str, str]],
    there: frozenset[tuple[str, str]],
) -> list[list[Cell]]:
    """A row of cells per op. Raises KeyError for a cell that is neither wired nor absent with a reason."""
    names = list(providers)
    return [
        [
            Cell(
                op=op,
                provider=name,
                absent=None if (op, name) in there else reasons[(op, name)],
                known=known.get((op, name), {}),
            )
            for name in names
        ]
        for op in ops
    ]


def markdown(rows: list[list[Cell]]) -> str:
    """The table with a number for each reason, and the reasons below it."""
    reasons: dict[str, int] = {}
    for row in rows:
        for cell in row:
            if cell.absent is not None:
                reasons.setdefault(cell.absent, len(reasons) + 1)
    names = [cell.provider for cell in rows[0]]
    lines = ["| op | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for row in rows:
        cells = [cell.text if cell.absent is None else f"absent ({reasons[cell.absent]})" for cell in row]
        lines.append(f"| {row[0].op} | " + " | ".join(cells) + " |")
    told = [f"{number}. {reason}" for reason, number in reasons.items()]
    return "\n".join([*lines, "", "Why a provider is absent:", "", *told]) + "\n"
