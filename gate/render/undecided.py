"""Which rows have no clear verdict, and why: those that were compared and are open, and those without a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gate.model.decision import Decision, RowFinding
from gate.model.reasons import SETTLED_BY, open_kind
from gate.render import rows, words
from gate.render.escape import Safe


def left_open(decision: Decision) -> list[RowFinding]:
    """The rows whose times were compared and say neither slower nor not slower, worst first."""
    return rows.ordered(row for row in decision.rows if _is_open(row)) if decision.kind == "timing" else []


def _is_open(row: RowFinding) -> bool:
    return row.verdict == "inconclusive" and words.finite(row.ratio)


def not_compared(decision: Decision) -> list[RowFinding]:
    """The rows without a comparison: apart from unchanged and open ones, which were compared."""
    return [row for row in _undecided(decision) if decision.kind == "codegen" or not _is_open(row)]


def _undecided(decision: Decision) -> list[RowFinding]:
    if decision.kind == "codegen":
        return rows.ordered(row for row in decision.rows if row.code is None)
    return rows.ordered(row for row in decision.rows if row.verdict in rows.UNJUDGED)


def why(decision: Decision) -> list[tuple[Safe, int]]:
    """Why rows have no clear verdict, in sentences, most frequent first, with the number of rows."""
    return [(words.reason(code), len(found)) for code, found in _by_code(_undecided(decision))]


def why_not_compared(decision: Decision) -> list[tuple[Safe, int]]:
    """As `why`, of the rows without a comparison."""
    return [(words.reason(code), len(found)) for code, found in _by_code(not_compared(decision))]


def with_detail(decision: Decision) -> list[tuple[str, int, str]]:
    """As `why` by code, each with the commonest detail of its rows, not made harmless yet; empty without any."""
    told = []
    for code, found in _by_code(_undecided(decision)):
        details = Counter(row.detail for row in found if row.detail)
        told.append((code, len(found), min(details, key=lambda text: (-details[text], text), default="")))
    return told


def _by_code(found: Iterable[RowFinding]) -> list[tuple[str, list[RowFinding]]]:
    """The rows by their first reason code, most frequent first."""
    groups: dict[str, list[RowFinding]] = {}
    for row in found:
        for code in row.reasons[:1] or ("no reason given",):
            groups.setdefault(code, []).append(row)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def settled(decision: Decision) -> str:
    """What would settle the rows that are open, of each kind of them."""
    kinds = {open_kind(row.reasons) for row in left_open(decision)}
    return "; ".join(step for kind, step in SETTLED_BY.items() if kind in kinds)
