"""How a decision is told in a terminal: the verdict first, then what changed, then where to look."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gate.model.decision import CodeEvidence, CodeSide, Decision, RowFinding

QUIET = frozenset({"unchanged"})
STYLE = {"pass": "bold green", "block": "bold red", "no_verdict": "bold yellow"}
STYLE_OF = {"fail": "red", "warn": "yellow"}
SEVERITY = {"fail": 0, "warn": 1}
FIELDS = {"VGPR": "vgpr", "instructions": "instructions", "waves": "waves_per_simd", "spills": "spills"}
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
    """One line per change: many shapes share one machine code, and many kernels change alike."""
    groups: dict[tuple[str, ...], list[RowFinding]] = {}
    for row in rows:
        if row.code is not None:
            groups.setdefault((row.code.verdict, row.op_type, row.dtype, *_numbers(row.code)), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: (SEVERITY.get(group[0][0], 2), group[0][1:3]))
    if not ordered:
        return
    console.print(Text("\nmachine code, base -> head: vector registers, instructions, waves per SIMD, spills", "dim"))
    for (verdict, op, dtype, *numbers), alike in ordered[:MOST_ROWS]:
        kernels = list(dict.fromkeys(row.code.compile_key for row in alike if row.code is not None))
        others = f" and {len(kernels) - 1} more of {op} {dtype}" if len(kernels) > 1 else ""
        console.print(
            Text(f"  {verdict:<7} {plain(kernels[0] + others)}; {len(alike)} shape{'s' if len(alike) > 1 else ''}", STYLE_OF.get(verdict, ""))
        )
        console.print(Text("          " + ", ".join(f"{name} {n}" for name, n in zip(FIELDS, numbers, strict=True))))
        finding = alike[0].code.findings[0] if alike[0].code and alike[0].code.findings else ""
        if finding and verdict in SEVERITY:
            console.print(Text(f"          {plain(finding)}"))
    _print_rest(len(ordered) - MOST_ROWS, console)


def _numbers(code: CodeEvidence) -> tuple[str, ...]:
    return tuple(_pair(code.base, code.head, name) for name in FIELDS.values())


def _print_rest(n: int, console: Console) -> None:
    if n > 0:
        console.print(Text(f"and {n} more: see decision.json"))


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _pair(base: CodeSide | None, head: CodeSide | None, field: str) -> str:
    sides = [str(getattr(side, field)) if side is not None else "-" for side in (base, head)]
    return sides[0] if sides[0] == sides[1] else " -> ".join(sides)
