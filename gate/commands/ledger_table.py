"""How ledger rows and their counts look in a terminal."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gate.ledgers.scan import Tally
from gate.model.shape import Shape
from gate.render.terminal import plain

MOST_NAMES = 12


def arguments(shape: Shape) -> str:
    """`M=1 N=8192`: the arguments of a row, the well-known ones first."""
    first = [name for name in ("M", "N", "K", "B") if name in shape.args]
    names = first + sorted(name for name in shape.args if name not in first)
    return " ".join(f"{name}={shape.args[name]}" for name in names)


def rows_table(shapes: list[Shape]) -> Table:
    """One line per row."""
    table = Table(box=None, pad_edge=False)
    for title in ("shape_id", "op", "stage", "dtype", "arguments", "model", "source", "weight"):
        table.add_column(title, justify="right" if title == "weight" else "left", overflow="fold")
    for shape in shapes:
        weight = shape.weight.value
        cells = (
            shape.shape_id,
            shape.op_type,
            shape.stage,
            shape.dtype,
            arguments(shape),
            shape.model.replace("|", ", "),
            shape.source.kind,
            "" if weight is None else f"{weight:.6f}",
        )
        # Text takes a name as it is; markup in a model's name is not ours to obey.
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table


def counts_table(tally: Tally) -> Table:
    """How many rows there are by op, stage, source, dtype and model."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row(Text("rows"), Text(f"{tally.rows}, {tally.weighted} of them weighted"))
    for group, counts in tally.counts().items():
        names = [f"{name} {count}" for name, count in counts.items()]
        rest = len(names) - MOST_NAMES if group == "model" else 0
        shown = [*names[:MOST_NAMES], f"and {rest} more"] if rest > 0 else names
        table.add_row(Text(group), Text(plain(", ".join(shown))))
    return table


def write(table: Table, target: TextIO) -> None:
    """Prints the table as wide as it needs to be where nobody watches, else as wide as the terminal."""
    width = None if target.isatty() else 220
    Console(file=target, width=width, highlight=False).print(table)
