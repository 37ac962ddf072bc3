"""How a decision is told in a terminal: the verdict first, then what changed, then where to look."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gate.model.decision import CodeSide, Decision, RowFinding

QUIET = frozenset({"unchanged"})
STYLE = {"pass": "bold green", "block": "bold red", "no_verdict": "bold yellow"}
MOST_ROWS = 20


def plain(text: str) -> str:
    """The text without control, format or surrogate characters, so that a name cannot steer the terminal."""
    return "".join(char if unicodedata.category(char)[0] != "C" else "�" for char in text)


def show(decision: Decision, console: Console) -> None:
    """Prints the decision: headline, counts, the changed rows and the next step."""
    console.print()
    console.print(Text(f"{decision.gate.upper()}: {plain(decision.summary)}", STYLE[decision.gate]))
    console.print(Text(f"decision {decision.decision}; next: {plain(decision.next_step)}"))
    told = {name: n for name, n in decision.counts.items() if n and name != "total"}
    counts = ", ".join(f"{n} {name}" for name, n in told.items())
    console.print(Text(f"{decision.counts['total']} rows: {counts}"))
    changed = [row for row in decision.rows if row.verdict not in QUIET or (row.code and row.code.verdict != "same")]
    if decision.kind == "codegen":
        _print_code(changed, console)
    elif changed:
        _print_times(changed, console)
    for problem in decision.problems[:MOST_ROWS]:
        console.print(Text(f"problem: {plain(problem)}", "yellow"))


def _print_times(rows: list[RowFinding], console: Console) -> None:
    table = Table("op", "model", "dtype", "args", "verdict", "base us", "head us", "head/base", box=None)
    for row in rows[:MOST_ROWS]:
        args = " ".join(f"{key}={value}" for key, value in row.args.items())
        times = (_us(row.base_us), _us(row.head_us), "-" if row.ratio is None else f"{row.ratio:.3f}")
        table.add_row(*map(plain, (row.op_type, row.model, row.dtype, args, row.verdict, *times)))
    console.print(table)
    _print_rest(len(rows) - MOST_ROWS, console)


def _print_code(rows: Iterable[RowFinding], console: Console) -> None:
    """One line per compile key: many shapes share one machine code."""
    keys: dict[str, list[RowFinding]] = {}
    for row in rows:
        if row.code is not None:
            keys.setdefault(row.code.compile_key, []).append(row)
    if not keys:
        return
    table = Table("kernel", "shapes", "verdict", "VGPR", "instructions", "waves", "spills", "finding", box=None)
    for key, same_key in list(keys.items())[:MOST_ROWS]:
        code = same_key[0].code
        assert code is not None
        numbers = [_pair(code.base, code.head, field) for field in ("vgpr", "instructions", "waves_per_simd", "spills")]
        finding = code.findings[0] if code.findings else ""
        table.add_row(plain(key), str(len(same_key)), code.verdict, *numbers, plain(finding))
    console.print(table)
    _print_rest(len(keys) - MOST_ROWS, console)


def _print_rest(n: int, console: Console) -> None:
    if n > 0:
        console.print(Text(f"and {n} more: see decision.json"))


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _pair(base: CodeSide | None, head: CodeSide | None, field: str) -> str:
    sides = [str(getattr(side, field)) if side is not None else "-" for side in (base, head)]
    return sides[0] if sides[0] == sides[1] else " -> ".join(sides)
