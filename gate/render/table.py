"""The table of all rows as data for the page's script: repeated words once, numbers as they are, worst rows first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import msgspec

from gate.model.decision import Decision, RowFinding
from gate.model.reasons import sentence
from gate.render import rows, words
from gate.render.escape import visible

# A page with more rows than this takes a phone seconds to open; all rows are in decision.json.
MOST_ROWS = 20_000
# Column key, heading, and how the script shows and sorts it.
COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("result", "Result", "word"),
    ("shape", "Shape", "shape"),
    ("place", "Model, stage", "word"),
    ("base", "Base µs", "time"),
    ("head", "Head µs", "time"),
    ("change", "Change", "change"),
    ("low", "Low", "hidden"),
    ("high", "High", "hidden"),
    ("speedup", "Against best", "speedup"),
    ("best", "Best baseline", "word"),
    ("class", "Classification", "word"),
    ("why", "Why", "word"),
    ("id", "Id", "hidden"),
)
_WORDS = frozenset({"result", "place", "best", "class", "why"})


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The data of the table. A word column holds places in `words`; `total` counts the rows that were left out too."""

    columns: tuple[tuple[str, str, str], ...]
    words: list[str]
    rows: list[list[str | float | int | None]]
    total: int


def table(decision: Decision, *, most: int = MOST_ROWS) -> Table:
    """The worst `most` rows; machine-code rows have their instructions in place of times."""
    chosen = worst(decision.rows, most)
    found: dict[str, int] = {}
    codegen = decision.kind == "codegen"
    listed = [_row(row, found, codegen=codegen) for row in chosen]
    absent = {None, found.get("")}
    used = [any(line[index] not in absent for line in listed) for index in range(len(COLUMNS))]
    columns = tuple(_column(*column, codegen=codegen, used=seen) for column, seen in zip(COLUMNS, used, strict=True))
    return Table(columns=columns, words=list(found), rows=listed, total=len(decision.rows))


def worst(found: Sequence[RowFinding], most: int) -> list[RowFinding]:
    """The first `most` rows in the order of every text: worst first."""
    return rows.ordered(found) if len(found) <= most else heapq.nsmallest(most, found, key=rows.order)


def _column(key: str, title: str, kind: str, *, codegen: bool, used: bool) -> tuple[str, str, str]:
    """The column as this run needs it: machine code counts instructions, and an empty column is not shown."""
    if codegen and kind == "time":
        title, kind = title.replace("µs", "instructions"), "count"
    return key, title, kind if used else "hidden"


def _row(row: RowFinding, found: dict[str, int], *, codegen: bool) -> list[str | float | int | None]:
    base, head, change = (row.base_us, row.head_us, row.ratio) if not codegen else _code(row)
    low, high = row.ci or (None, None)
    values: dict[str, str | float | None] = {
        "result": words.VERDICT_WORDS[row.verdict],
        "shape": visible(words.label_text(row), limit=160),
        "place": visible(f"{row.model}, {row.stage.replace('_', ' ')}{', hot' if row.hot else ''}", limit=100),
        "base": _number(base),
        "head": _number(head),
        "change": _number(change),
        "low": _number(low),
        "high": _number(high),
        "speedup": _number(row.speedup_vs_best),
        "best": visible(row.best_baseline, limit=40) if row.best_baseline else "",
        "class": words.CLASS_WORDS[row.classification] if row.classification else "",
        "why": why(row),
        "id": row.shape_id,
    }
    return [found.setdefault(str(values[key]), len(found)) if key in _WORDS else values[key] for key, _, _ in COLUMNS]


def _code(row: RowFinding) -> tuple[float | None, float | None, float | None]:
    if row.code is None or row.code.base is None or row.code.head is None:
        return None, None, None
    base, head = row.code.base.instructions, row.code.head.instructions
    return base, head, head / base if base else None


def _number(value: float | None) -> float | None:
    """Four digits are all that is shown or sorted by."""
    return float(f"{value:.5g}") if value is not None and words.finite(value) else None


def why(row: RowFinding) -> str:
    """Why the row has its verdict, as plain text."""
    told = [code for code in row.reasons if not words.said_by_verdict(code)]
    parts = [visible(sentence(code), limit=160) for code in told[:4]]
    parts += [visible(text, limit=200) for text in _details(row) if text]
    return "; ".join(dict.fromkeys(parts))


def _details(row: RowFinding) -> Iterable[str]:
    yield row.detail
    if row.code is not None:
        yield from row.code.findings[:2]
    if row.classification not in (None, "ok"):
        yield row.evidence


def as_json(data: Table) -> str:
    """The data as JSON that may stand inside a script element: no character in it can end the element."""
    text = msgspec.json.encode(data).decode("utf-8")
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
