"""How ledger rows and their counts look in a terminal."""

from __future__ import annotations

from typing import Literal, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gate.ledgers.scan import Tally
from gate.model.shape import Shape
from gate.model.text import cell

MOST_NAMES = 12


def arguments(shape: Shape) -> str:
    """`M=1 N=8192`: the arguments of a row, the well-known ones first."""
    first = [name for name in ("M", "N", "K", "B") if name in shape.args]
    names = first + sorted(name for name in shape.args if name not in first)
    return " ".join(f"{name}={shape.args[name]}" for name in names)


# Title and least width of each column; below their sum a table would be letters under letters.
COLUMNS = (
    ("shape_id", 21),
    ("op", 8),
    ("stage", 7),
    ("dtype", 5),
    ("arguments", 8),
    ("model", 7),
    ("source", 6),
    ("weight", 8),
)
TABLE_WIDTH = sum(width + 2 for _, width in COLUMNS)
# No one reads a terminal narrower than this line by line.
LEAST_WIDTH = 20
UNWATCHED_WIDTH = 220


def cells(shape: Shape) -> tuple[str, ...]:
    """What the table says of a row, in the order of COLUMNS."""
    weight = shape.weight.value
    texts = (
        shape.shape_id,
        shape.op_type,
        shape.stage,
        shape.dtype,
        arguments(shape),
        shape.model.replace("|", ", "),
        shape.source.kind,
        "" if weight is None else f"{weight:.6f}",
    )
    return tuple(map(cell, texts))


def rows_table(shapes: list[Shape]) -> Table:
    """One line per row."""
    table = Table(box=None, pad_edge=False)
    for title, width in COLUMNS:
        side: Literal["right", "left"] = "right" if title == "weight" else "left"
        table.add_column(title, justify=side, overflow="fold", min_width=width)
    for shape in shapes:
        # Text takes a name as it is; markup in a model's name is not ours to obey.
        table.add_row(*map(Text, cells(shape)))
    return table


def rows_text(shapes: list[Shape]) -> Text:
    """As `rows_table`, for where it does not fit: one paragraph per row, folded between words."""
    return Text("\n").join(Text("  ".join(filter(None, cells(shape)))) for shape in shapes)


def counts_text(tally: Tally) -> Text:
    """How many rows there are by op, stage, source, dtype and model, one paragraph a group."""
    found = [f"rows {tally.rows}, {tally.weighted} of them weighted"]
    for group, counts in tally.counts().items():
        names = [f"{name} {count}" for name, count in counts.items()]
        rest = len(names) - MOST_NAMES if group == "model" else 0
        shown = [*names[:MOST_NAMES], f"and {rest} more"] if rest > 0 else names
        found.append(f"{group:<6} {cell(', '.join(shown))}")
    return Text("\n").join(map(Text, found))


def console(target: TextIO) -> Console:
    """As wide as the terminal, and wide where nobody watches."""
    if not target.isatty():
        return Console(file=target, width=UNWATCHED_WIDTH, highlight=False)
    found = Console(file=target, highlight=False)
    return Console(file=target, width=max(found.width, LEAST_WIDTH), highlight=False)


def show_rows(shapes: list[Shape], target: Console) -> None:
    """Prints the rows as a table where one fits."""
    target.print(rows_table(shapes) if target.width >= TABLE_WIDTH else rows_text(shapes), soft_wrap=False)
