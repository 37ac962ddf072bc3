"""What benchmark_summary.md, coverage_matrix.md and weighted_summary.md say: selections and words, no own figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gate.model.decision import Decision, RowFinding
from gate.model.report import HostCost, OpCover, OpTally, OpWeight, Rollup, RowPull, ShapeCover, Standoff
from gate.render import page, rows, sections, words
from gate.render.escape import Safe, code, escape, joined, say

MOST_TOP = 10
# Shapes of one op in the grid; those with a gap come first, and the rest is counted.
MOST_SHAPES = 5_000
FAILED = frozenset({"failed", "oom", "incorrect"})
STATE_WORDS = {
    "ok": "ok",
    "failed": "failed",
    "incorrect": "wrong",
    "oom": "out of memory",
    "unsupported": "unsupported",
    "skipped": "skipped",
    "not_configured": "off",
    "missing": "missing",
}
BAD_STATES = frozenset({"failed", "incorrect", "oom", "missing"})


def benchmark_summary(decision: Decision, rollup: Rollup) -> str:
    """The whole standing of a run: against best, per baseline, stage, model, weight; top rows; host; reproduction."""
    decision = rows.arranged(decision)
    return page.render("benchmark_summary.md.j2", {**page.view(decision, cap=None), **_benchmark(decision, rollup)})


def coverage_matrix(decision: Decision, rollup: Rollup) -> str:
    """Which provider has what on which shape: counts, then a grid per op."""
    decision = rows.arranged(decision)
    shapes = {row.shape_id: row for row in decision.rows}
    grids = [_grid(cover, shapes) for cover in rollup.covers]
    return page.render("coverage_matrix.md.j2", {**page.view(decision, cap=0), "grids": grids})


def weighted_summary(decision: Decision, rollup: Rollup) -> str:
    """The standing by traffic weight: how much of the weight is covered, and which rows move the mean."""
    decision = rows.arranged(decision)
    named = {row.shape_id: row for row in decision.rows}
    view = {
        **page.view(decision, cap=0),
        "weights": [_weight(weight, decision) for weight in rollup.weights],
        "pulls": [_pull(pull, named) for weight in rollup.weights for pull in weight.pulls[:MOST_TOP]],
        "groups": [sections.group(each) for each in decision.standings if words.finite(each.geomean.weighted)],
    }
    return page.render("weighted_summary.md.j2", view)


def _benchmark(decision: Decision, rollup: Rollup) -> dict[str, Any]:
    ahead, behind = top_rows(decision)
    failed = [row for row in decision.rows if row.status in FAILED]
    changed = rows.changed(decision)
    worse = [row for row in changed if row.verdict in rows.WORSE]
    return {
        "ops": [_op(tally, decision) for tally in rollup.ops],
        "standoffs": [_standoff(each) for each in rollup.standoffs],
        "by_stage": _groups(decision, "stage"),
        "by_model": _groups(decision, "model"),
        "ahead": rows.listing(ahead, rows.line, cap=MOST_TOP),
        "furthest_behind": rows.listing(behind, rows.line, cap=MOST_TOP),
        "slower": rows.lines(worse, cap=MOST_TOP),
        "faster": rows.lines([row for row in changed if row.verdict == "improved"][::-1], cap=MOST_TOP),
        "classes": _classes(rollup.ops),
        "host": [_host(cost) for cost in rollup.host],
        "failed": rows.listing(failed, rows.line, cap=100),
        "reasons": [words.reason(text) for text in decision.reasons],
    }


def top_rows(decision: Decision) -> tuple[list[RowFinding], list[RowFinding]]:
    """The rows ahead of the best baseline, furthest first, and those behind it, furthest first."""
    rated = [row for row in decision.rows if words.finite(row.speedup_vs_best)]
    order = sorted(rated, key=lambda row: (row.speedup_vs_best or 0.0, row.shape_id))
    ahead = [row for row in reversed(order) if (row.speedup_vs_best or 0.0) >= 1]
    return ahead, [row for row in order if (row.speedup_vs_best or 0.0) < 1]


def _groups(decision: Decision, by: str) -> list[sections.Group]:
    return [sections.group(each) for each in decision.standings if each.by == by]


def _op(tally: OpTally, decision: Decision) -> dict[str, Safe]:
    mean = next((each.geomean for each in decision.standings if (each.by, each.name) == ("op", tally.op_type)), None)
    return {
        "name": code(tally.op_type),
        "rows": words.tight(Safe(f"{mean.n if mean else 0:,} of {tally.rows:,}")),
        "geomean": words.tight(words.speedup(mean.vs_best if mean else None)),
        "weighted": words.tight(words.weighted(mean.weighted if mean else None)),
        "rivalled": _over(tally.rivalled.vs_best, tally.rivalled.n),
        "spread": _spread(tally.ahead, tally.level, tally.behind),
    }


def _over(value: float | None, n: int) -> Safe:
    return words.tight(Safe(f"{words.speedup(value)} over {n:,}")) if words.finite(value) else Safe("none")


def _spread(ahead: int, level: int, behind: int) -> Safe:
    return words.tight(Safe(f"{ahead:,} / {level:,} / {behind:,}"))


def _standoff(each: Standoff) -> dict[str, Safe]:
    notes = [Safe("reference implementation")] if each.reference else []
    if each.unmatched:
        notes.append(say("{n} time more work than the candidate", n=words.count(each.unmatched, "row")))
    return {
        "op": code(each.op_type),
        "baseline": code(each.baseline),
        "rows": words.tight(Safe(f"{each.geomean.n:,} of {each.rows:,}")),
        "geomean": words.tight(words.speedup(each.geomean.vs_best)),
        "weighted": words.tight(words.weighted(each.geomean.weighted)),
        "spread": _spread(each.ahead, each.level, each.behind),
        "note": joined("; ", notes),
    }


def _classes(ops: Sequence[OpTally]) -> list[tuple[Safe, Safe]]:
    """`the implementation is behind`: how many rows of which op."""
    found = []
    for name, said in {**words.CLASS_WORDS, "none": "not classified"}.items():
        parts = [
            say("{op} {n}", op=code(op.op_type), n=Safe(f"{op.classes[name]:,}")) for op in ops if name in op.classes
        ]
        if parts:
            found.append((Safe(said), joined(", ", parts)))
    return found


def _host(cost: HostCost) -> dict[str, Safe]:
    ratio = cost.eager_vs_candidate
    return {
        "op": code(cost.op_type),
        "provider": code(cost.provider),
        "n": Safe(f"{cost.n:,}"),
        "kernel": Safe(words.microseconds(cost.kernel_us)),
        "eager": Safe(words.microseconds(cost.eager_us)),
        "host": Safe(words.microseconds(cost.host_us)),
        "ratio": words.speedup(ratio) if words.finite(ratio) else Safe("-"),
    }


def _grid(cover: OpCover, shapes: dict[str, RowFinding]) -> dict[str, Any]:
    states = sorted({state for counts in cover.counts.values() for state in counts}, key=_rank)
    gaps_first = sorted(cover.shapes, key=lambda shape: not BAD_STATES.intersection(shape.states))
    chosen = cover.shapes if len(cover.shapes) <= MOST_SHAPES else gaps_first[:MOST_SHAPES]
    rest = len(cover.shapes) - len(chosen)
    more = Safe(f"In the results: {words.count(rest, 'more shape')}, none with a gap shown here.")
    return {
        "op": code(cover.op_type),
        "providers": [code(name) for name in cover.providers],
        "states": [state_word(state) for state in states],
        "counts": [
            (code(name), [Safe(f"{cover.counts[name].get(state, 0):,}") for state in states])
            for name in cover.providers
        ],
        "shapes": [_cells(shape, shapes) for shape in chosen],
        "rest": more if rest else Safe(""),
        "off": [(code(name), escape(reason)) for name, reason in cover.off.items()],
    }


def _rank(state: str) -> tuple[int, str]:
    order = list(STATE_WORDS)
    return (order.index(state) if state in order else len(order), state)


def state_word(state: str) -> Safe:
    """The word of a grid state; a reason code that makes a time unusable as its own words."""
    return Safe(STATE_WORDS[state]) if state in STATE_WORDS else escape(state.replace("_", " "), limit=40)


def _cells(shape: ShapeCover, shapes: dict[str, RowFinding]) -> tuple[Safe, list[Safe]]:
    row = shapes[shape.shape_id]
    name = say("{label}<br>{place}", label=words.label(row), place=words.place(row))
    return name, [_cell(state, time) for state, time in zip(shape.states, shape.times_us, strict=True)]


def _cell(state: str, time: float | None) -> Safe:
    if state == "ok" and time is not None:
        return words.tight(Safe(f"{words.microseconds(time)} µs"))
    word = state_word(state)
    return word if state == "ok" else say("**{word}**", word=word)


def _weight(weight: OpWeight, decision: Decision) -> dict[str, Safe]:
    mean = next((each.geomean for each in decision.standings if (each.by, each.name) == ("op", weight.op_type)), None)
    bare = Safe("no weights")
    return {
        "op": code(weight.op_type),
        "rows": Safe(f"{weight.weighted_rows:,} of {weight.rows:,}"),
        "covered": words.percent(weight.covered) if weight.weighted_rows else bare,
        "standing": Safe(f"{weight.standing_rows:,}"),
        "plain": words.speedup(mean.vs_best if mean else None),
        "plain_weighted_rows": words.weighted(weight.geomean.vs_best),
        "weighted": words.weighted(weight.geomean.weighted),
    }


def _pull(pull: RowPull, shapes: dict[str, RowFinding]) -> dict[str, Safe]:
    row = shapes[pull.shape_id]
    return {
        "shape": say("{label}<br>{place}", label=words.label(row), place=words.place(row)),
        "share": words.percent(pull.share),
        "speedup": rows.standing(row),
        "factor": Safe(f"{pull.factor:.3f}"),
    }
