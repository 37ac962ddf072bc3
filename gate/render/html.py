"""The HTML report: one file with its pictures, data, style and script inside, which loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from gate.model.decision import CodeSide, Decision, Standing
from gate.model.reasons import sentence
from gate.model.report import Rollup, Standoff, Trend
from gate.render import headline, machine_code, plots, plots_wide, rows, sections, table, words
from gate.render.html_engine import asset, engine
from gate.render.plot_style import Plot, inline, style

MOST_KERNELS = 500


def pictures(decision: Decision, rollup: Rollup, history: Sequence[Trend]) -> list[Plot]:
    """Every plot of the report, those without data too: they say why there is none."""
    decision = rows.arranged(decision)
    with style():
        found = [plots.base_head(decision), plots_wide.coverage(decision, rollup)]
        if decision.kind == "timing":
            middle = [plots.roofline(rollup), plots_wide.noise(rollup)]
            found = [plots.by_op(decision), found[0], *middle, found[1], plots.intervals(decision)]
        return [*found, plots_wide.trend(history)]


def page(decision: Decision, rollup: Rollup, drawn: Sequence[Plot]) -> str:
    """The report as one HTML document. Equal inputs give equal bytes."""
    decision = rows.arranged(decision)
    view = _view(decision, rollup)
    script = asset("report.js")
    view |= {
        "plots": [(plot, Markup(inline(plot)) if plot.figure is not None else None) for plot in drawn],
        "data": Markup(table.as_json(table.table(decision))),
        "css": Markup(asset("report.css")),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
    }
    return engine().get_template("report.html.j2").render(view)


def _view(decision: Decision, rollup: Rollup) -> dict[str, Any]:
    return {
        "gate": decision.gate,
        "kind": decision.kind,
        "title": str(headline.title(decision)),
        "next_step": decision.next_step,
        "summary": decision.summary,
        "scope": decision.scope,
        "reasons": [sentence(code) for code in decision.reasons],
        "problems": decision.problems[:100],
        "tiles": _tiles(decision),
        "counts": _counts(decision),
        "standings": [_standing(each) for each in decision.standings],
        "standoffs": [_standoff(each) for each in rollup.standoffs],
        "controls": [
            (each.provider, each.n, str(words.change(each.ratio if each.n else None)), str(sections.control(each).word))
            for each in decision.controls
        ],
        "kernels": _kernels(decision),
        "environment": _environment(decision),
        "rates": [(name.replace("_", " "), str(item)) for name, item in decision.error_rates.items()],
        "commands": [(each.what, each.line) for each in decision.commands],
    }


def _tiles(decision: Decision) -> list[tuple[str, str]]:
    """The figures at the top: a name and a value each."""
    mean, cover = decision.geomean, decision.coverage
    found = [("Decision", words.decision_word(decision))]
    if decision.kind == "timing":
        found += [
            ("Against best", str(words.speedup(mean.vs_best))),
            ("By weight", str(words.weighted(mean.weighted))),
            ("Against base", str(words.speedup(mean.vs_base))),
        ]
    return [*found, ("Rows judged", f"{cover.judged:,} of {cover.required:,}")]


def _counts(decision: Decision) -> dict[str, Any]:
    """How many rows of each op have which verdict."""
    tally: dict[str, dict[str, int]] = {}
    for row in decision.rows:
        of_op = tally.setdefault(row.op_type, {})
        of_op[row.verdict] = of_op.get(row.verdict, 0) + 1
    seen = [name for name in words.VERDICT_WORDS if any(name in of_op for of_op in tally.values())]
    lines = [(op, [tally[op].get(name, 0) for name in seen], sum(tally[op].values())) for op in sorted(tally)]
    return {"columns": [words.VERDICT_WORDS[name] for name in seen], "lines": lines}


def _standing(each: Standing) -> tuple[str, str, int, str, str, str]:
    mean = each.geomean
    means = (words.speedup(mean.vs_best), words.weighted(mean.weighted), words.speedup(mean.vs_base))
    best, weighted, base = map(str, means)
    return each.by, each.name, each.rows, best, weighted, base


def _standoff(each: Standoff) -> tuple[str, str, str, str, str, str, str]:
    notes = ["reference implementation"] if each.reference else []
    notes += [f"{words.count(each.unmatched, 'row times', 'rows time')} more work"] if each.unmatched else []
    return (
        each.op_type,
        each.baseline,
        f"{each.geomean.n:,} of {each.rows:,}",
        str(words.speedup(each.geomean.vs_best)),
        str(words.weighted(each.geomean.weighted)),
        f"{each.ahead:,} / {each.level:,} / {each.behind:,}",
        "; ".join(notes),
    )


def _kernels(decision: Decision) -> dict[str, Any]:
    """The machine-code table: kernels that changed alike on one line, all names with it."""
    groups = machine_code.grouped([k for k in machine_code.kernels(decision) if k.evidence.verdict != "same"])
    same = sum(kernel.evidence.verdict == "same" for kernel in machine_code.kernels(decision))
    return {
        "groups": [_group(group) for group in groups[:MOST_KERNELS]],
        "total": len(groups),
        "same": same,
        "unchanged": words.count(same, "kernel has", "kernels have"),
    }


def _group(alike: machine_code.Alike) -> dict[str, Any]:
    evidence = alike.first.evidence
    fields = ("vgpr", "instructions", "waves_per_simd", "spills")
    return {
        "result": words.CODE_WORDS.get(evidence.verdict, evidence.verdict),
        "bad": evidence.verdict in machine_code.WORSE,
        "key": evidence.compile_key,
        "others": [kernel.evidence.compile_key for kernel in alike.kernels[1:]],
        "shapes": sum(len(kernel.rows) for kernel in alike.kernels),
        "numbers": [_pair(evidence.base, evidence.head, field) for field in fields],
        "findings": evidence.findings[:6],
    }


def _pair(base: CodeSide | None, head: CodeSide | None, field: str) -> str:
    old, new = ("none" if side is None else f"{getattr(side, field):,}" for side in (base, head))
    return old if old == new else f"{old} → {new}"


def _environment(decision: Decision) -> list[tuple[str, str, str, bool]]:
    base, head = decision.environment.base, decision.environment.head
    differs = set(decision.environment.differences)
    names = sorted({*base, *head, *differs}, key=lambda name: (name not in differs, name))
    bare = str(words.NOT_RECORDED)
    return [(name.replace("_", " "), base.get(name, bare), head.get(name, bare), name in differs) for name in names]
