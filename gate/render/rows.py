"""Which rows are shown, in which order and how many: the selections of every text, worst first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from gate.model.decision import Decision, RowFinding
from gate.render import words
from gate.render.escape import Safe, escape, joined, say

T = TypeVar("T")
S = TypeVar("S")
OPEN = ("newly_incorrect", "newly_failed", "regressed", "missing", "waived", "improved", "fixed")
UNJUDGED = ("not_comparable", "inconclusive", "not_run", "new")
WORSE = frozenset({"newly_incorrect", "newly_failed", "regressed", "missing", "waived"})
_FEWEST_SHARING = 4
_FEW_ARGS = 4
_SHORT_LABEL = 48  # With its markup: about 35 characters, which a table keeps on one line.
_RANK = {verdict: rank for rank, verdict in enumerate(words.VERDICT_WORDS)}


@dataclass(frozen=True)
class Listing(Generic[T]):
    """The first items of a list, how many there are, and how many are left out."""

    items: tuple[T, ...]
    total: int

    @property
    def left_out(self) -> int:
        return self.total - len(self.items)

    @property
    def rest(self) -> Safe:
        """The sentence that says what is left out and where it is; empty if all is listed."""
        if not self.left_out:
            return Safe("")
        left = f"{self.left_out:,} of {self.total:,} {'is' if self.left_out == 1 else 'are'} not listed here"
        return Safe(f"{left}: `decision.json` in this run's artifact has all.")


@dataclass(frozen=True)
class Line:
    """One row in words; every field is ready Markdown."""

    result: Safe
    shape: Safe
    place: Safe
    times: Safe
    change: Safe
    times_cell: Safe
    cell: Safe
    standing: Safe
    why: Safe
    shape_id: Safe
    classification: Safe
    evidence: Safe
    likely_fix: Safe


def arranged(decision: Decision) -> Decision:
    """The decision with the arguments that tell shapes of an op apart before those that all of them share.

    A name shows as many arguments as fit: fourteen of a fused kernel do not, and the telling ones must.
    """
    varying: dict[str, list[str]] = {}
    for op, args in _long_args(decision).items():
        names = list(dict.fromkeys(name for each in args for name in each))
        varying[op] = [name for name in names if len({repr(each.get(name)) for each in args}) > 1]
    if not varying:
        return decision
    found = tuple(_arrange(row, varying[row.op_type]) if row.op_type in varying else row for row in decision.rows)
    return msgspec.structs.replace(decision, rows=found)


def _long_args(decision: Decision) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in decision.rows:
        if len(row.args) > _FEW_ARGS:
            found.setdefault(row.op_type, []).append(row.args)
    return found


def _arrange(row: RowFinding, first: Sequence[str]) -> RowFinding:
    telling = {name: row.args[name] for name in first if name in row.args}
    return msgspec.structs.replace(row, args={**telling, **row.args})


def listing(items: Sequence[S], show: Callable[[S], T], *, cap: int | None) -> Listing[T]:
    """At most `cap` items, each shown by `show`; the rest is counted, never lost."""
    chosen = items if cap is None else items[:cap]
    return Listing(items=tuple(show(item) for item in chosen), total=len(items))


def changed(decision: Decision) -> list[RowFinding]:
    """The rows that differ from the base, worst first."""
    return ordered(row for row in decision.rows if row.verdict in OPEN)


def behind(decision: Decision) -> list[RowFinding]:
    """The rows that are behind the best baseline beyond what counts as level, furthest first."""
    return [row for row in _classified(decision) if _shows_behind(row)]


def doubtful(decision: Decision) -> list[RowFinding]:
    """The rows that look level with the best baseline or ahead of it, and whose comparison is in doubt."""
    return [row for row in _classified(decision) if not _shows_behind(row)]


def _classified(decision: Decision) -> list[RowFinding]:
    rows = [
        row for row in decision.rows if words.finite(row.speedup_vs_best) and row.classification not in (None, "ok")
    ]
    return sorted(rows, key=lambda row: (row.speedup_vs_best or 0.0, row.shape_id, row.provider))


def _shows_behind(row: RowFinding) -> bool:
    """Whether the speedup that is shown is below 1."""
    return round(row.speedup_vs_best or 0.0, 2) < 1


def ordered(rows: Iterable[RowFinding]) -> list[RowFinding]:
    """By verdict, then by how much slower, then by id: equal inputs give equal order."""
    return sorted(rows, key=order)


def order(row: RowFinding) -> tuple[int, float, str, str]:
    """The place of a row among others: its verdict, how much slower, then its id."""
    ratio = row.ratio if row.ratio is not None and math.isfinite(row.ratio) else 0.0
    return _RANK.get(row.verdict, len(_RANK)), -ratio, row.shape_id, row.provider


def worst(decision: Decision) -> RowFinding | None:
    """The row that matters most: the worst changed one, else the one furthest behind the best baseline."""
    first = next(iter(changed(decision)), None)
    if first is not None and first.verdict in WORSE:
        return first
    rated = [row for row in decision.rows if words.finite(row.speedup_vs_best)]
    return min(rated, key=lambda row: (row.speedup_vs_best or 0.0, row.shape_id), default=None)


def shared(found: Sequence[RowFinding]) -> tuple[str, ...]:
    """The reason codes that all rows of a longer list have: said once, not in every row."""
    if len(found) < _FEWEST_SHARING:
        return ()
    common = set(found[0].reasons).intersection(*(row.reasons for row in found))
    return tuple(code for code in found[0].reasons if code in common and not words.said_by_verdict(code))


def lines(found: Sequence[RowFinding], *, cap: int | None) -> Listing[Line]:
    """The first rows of a list in words, without what `shared` says of all."""
    above = frozenset(shared(found))
    return listing(found, lambda row: line(row, told_above=above), cap=cap)


def line(row: RowFinding, *, told_above: frozenset[str] = frozenset()) -> Line:
    """Everything that a text says of one row."""
    word, label = words.VERDICT_WORDS[row.verdict], words.label(row)
    return Line(
        result=words.tight(Safe(f"**{word}**" if row.verdict in WORSE else word)),
        shape=words.tight(label) if len(label) <= _SHORT_LABEL else label,
        place=words.place(row),
        times=words.times(row.base_us, row.head_us),
        change=_change(row),
        times_cell=words.tight(words.times(row.base_us, row.head_us)),
        cell=_cell(row),
        standing=words.tight(standing(row)),
        why=_why(row, told_above=told_above),
        shape_id=words.value(row.shape_id),
        classification=Safe(words.CLASS_WORDS[row.classification]) if row.classification else Safe("not classified"),
        evidence=escape(row.evidence) if row.evidence else Safe("none given"),
        likely_fix=escape(row.likely_fix) if row.likely_fix else Safe("none given"),
    )


def _change(row: RowFinding) -> Safe:
    bounds = words.interval(row.ci)
    return (
        say("{change} ({bounds})", change=words.change(row.ratio), bounds=bounds) if bounds else words.change(row.ratio)
    )


def _cell(row: RowFinding) -> Safe:
    """Times, change and interval in a table cell, each on a line of its own."""
    lines = [words.times(row.base_us, row.head_us)]
    if words.finite(row.base_us) != words.finite(row.head_us):
        lines = [words.side("base", row.base_us), words.side("head", row.head_us)]
    if words.finite(row.ratio):
        lines.append(words.change(row.ratio))
        lines += [bounds for bounds in [words.interval(row.ci)] if bounds]
    return joined("<br>", [words.tight(part) for part in lines])


def _why(row: RowFinding, *, told_above: frozenset[str]) -> Safe:
    why = words.reasons(row, told_above=told_above)
    if not would_show(row):
        return why
    return say("{why}; a slowdown of {mde} or more would have shown", why=why, mde=words.percent(row.mde))


def would_show(row: RowFinding) -> bool:
    """Whether a row is open because its noise hides what it looks like: a larger slowdown would have shown."""
    noisy = row.verdict == "inconclusive" and row.mde is not None and words.finite(row.mde)
    return noisy and (row.ratio is None or row.ratio < 1 + (row.mde or 0.0))


def standing(row: RowFinding) -> Safe:
    """The speedup against the best baseline and its name: `0.81x of aiter`."""
    if not words.finite(row.speedup_vs_best):
        return words.NOT_MEASURED
    if row.best_baseline is None:
        return words.speedup(row.speedup_vs_best)
    return say("{x} of {name}", x=words.speedup(row.speedup_vs_best), name=escape(row.best_baseline, limit=40))


def counts(decision: Decision) -> Safe:
    """The verdicts of all rows, worst first: `8 rows: 1 slower, 7 unchanged`."""
    told = ((decision.counts.get(name, 0), word) for name, word in words.VERDICT_WORDS.items())
    parts = [Safe(f"{number:,} {word}") for number, word in told if number]
    total = words.count(decision.counts.get("total", len(decision.rows)), "row")
    return say("{total}: {parts}", total=total, parts=joined(", ", parts)) if parts else total
