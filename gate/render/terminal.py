"""How a decision is told in a terminal: the verdict first, then what changed, then where to look."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gate.model.decision import CodeEvidence, CodeSide, Decision, RowFinding
from gate.model.reasons import sentence
from gate.model.text import one_line
from gate.render import machine_code, rows, undecided, words

STYLE = {"pass": "bold green", "block": "bold red", "no_verdict": "bold yellow"}
STYLE_OF = {"fail": "red", "missing": "red", "still_failing": "red", "warn": "yellow"}
FIELDS = {"VGPR": "vgpr", "instructions": "instructions", "waves": "waves_per_simd", "spills": "spills"}
MOST_ROWS = 20
MOST_COMMANDS = 3
LONGEST_WHY = 200


def show(decision: Decision, console: Console) -> None:
    """Prints the decision: headline, counts, the changed rows, why rows are not judged, and the next step."""
    console.print()
    console.print(Text(f"{decision.gate.upper()}: {one_line(decision.summary)}", STYLE[decision.gate]))
    console.print(Text(f"decision: {words.decision_word(decision)}; next: {one_line(decision.next_step)}"))
    if decision.scope:
        console.print(Text(f"this run covers {one_line(decision.scope)}"))
    if decision.kind == "codegen":
        _print_code(machine_code.kernels(decision), console)
    else:
        _print_times(rows.changed(decision), console)
        _print_open(decision, console)
    for code, n, detail in undecided.with_detail(decision)[:MOST_ROWS]:
        more = f": {_short(detail)}" if detail else ""
        console.print(Text(f"not judged: {words.count(n, 'row')}, {one_line(sentence(code))}{more}"))
    for problem in decision.problems[:MOST_ROWS]:
        console.print(Text(f"problem: {one_line(problem)}", "yellow"))
    _print_rest(len(decision.problems) - MOST_ROWS, console, what="problem")
    for command in decision.commands[:MOST_COMMANDS]:
        console.print(Text(f"{one_line(command.what)}:\n    {one_line(command.line)}"))


def _print_times(found: Sequence[RowFinding], console: Console) -> None:
    """One line per row, worst first; a second one says why, where there is no change of time to read."""
    for row in found[:MOST_ROWS]:
        place = one_line(f"{words.label_text(row)} ({row.model}, {row.stage})")
        style = "red" if row.verdict in rows.WORSE else ""
        console.print(Text(f"  {row.verdict:<15} {_change(row):<24} {place}", style))
        if row.ratio is None and (why := _why(row)):
            console.print(Text(f"          {why}"))
    _print_rest(len(found) - MOST_ROWS, console, what="row")


def _print_open(decision: Decision, console: Console) -> None:
    """The rows that were compared and are open, worst first, and what would settle them."""
    found = undecided.left_open(decision)
    if found:
        console.print(Text("compared, and neither slower nor not slower:"))
        _print_times(found, console)
        console.print(Text(f"to settle them: {undecided.settled(decision)}"))


def _why(row: RowFinding) -> str:
    """What the reasons of a row say beyond its verdict, and its detail."""
    told = [sentence(code) for code in row.reasons if not words.said_by_verdict(code)]
    return _short("; ".join(dict.fromkeys([*told, *([row.detail] if row.detail else [])])))


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST_WHY else f"{line[:LONGEST_WHY]}..."


def _print_code(found: list[machine_code.Kernel], console: Console) -> None:
    """A few lines per change: many shapes share one machine code, and many kernels change alike."""
    groups = machine_code.grouped([*machine_code.changed(found), *machine_code.alike(found)])
    if not groups:
        return
    console.print(Text("\nmachine code, base -> head: vector registers, instructions, waves per SIMD, spills", "dim"))
    for alike in groups[:MOST_ROWS]:
        _print_alike(alike, console)
    _print_rest(len(groups) - MOST_ROWS, console, what="change")


def _print_alike(alike: machine_code.Alike, console: Console) -> None:
    evidence, row = alike.first.evidence, alike.first.rows[0]
    others = f" and {len(alike.kernels) - 1} more of {row.op_type} {row.dtype}" if len(alike.kernels) > 1 else ""
    shapes = words.count(sum(len(kernel.rows) for kernel in alike.kernels), "shape")
    name = one_line(evidence.compile_key + others)
    console.print(Text(f"  {evidence.verdict:<7} {name}; {shapes}", STYLE_OF.get(evidence.verdict, "")))
    console.print(Text("          " + _numbers(evidence)))
    if evidence.findings and evidence.verdict in STYLE_OF:
        console.print(Text(f"          {one_line(evidence.findings[0])}"))


def _numbers(code: CodeEvidence) -> str:
    return ", ".join(f"{name} {_pair(code.base, code.head, field)}" for name, field in FIELDS.items())


def _print_rest(n: int, console: Console, *, what: str) -> None:
    if n > 0:
        console.print(Text(f"and {words.count(n, f'more {what}')}: see decision.json"))


def _change(row: RowFinding) -> str:
    """`5.00 -> 6.02 us  +20.4%`, as far as it is known."""
    if row.ratio is None:
        return ""
    sides = [f"{side:.2f}" if side is not None else "-" for side in (row.base_us, row.head_us)]
    open_to = f" (from {words.percent(row.mde)} it would show)" if rows.would_show(row) else ""
    return f"{' -> '.join(sides)} us  {words.change(row.ratio)}{open_to}"


def _pair(base: CodeSide | None, head: CodeSide | None, field: str) -> str:
    sides = [str(getattr(side, field)) if side is not None else "-" for side in (base, head)]
    return sides[0] if sides[0] == sides[1] else " -> ".join(sides)
