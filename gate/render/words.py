"""How verdicts, numbers and shapes read: the words and the number formats, each in one place."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from gate.model.decision import CodeSide, Decision, RowFinding
from gate.model.reasons import SENTENCES, sentence
from gate.model.text import counted
from gate.render.escape import Safe, code, escape, joined, say

NOT_MEASURED = Safe("not measured")
NOT_RECORDED = Safe("not recorded")
# Worst first: the order of rows, of counts and of the words that name them.
VERDICT_WORDS = {
    "newly_incorrect": "newly wrong",
    "newly_failed": "newly failing",
    "regressed": "slower",
    "missing": "missing",
    "waived": "slower (waived)",
    "not_comparable": "not comparable",
    "inconclusive": "too noisy to tell",
    "not_run": "not measured",
    "improved": "faster",
    "fixed": "fixed",
    "new": "new",
    "unchanged": "unchanged",
}
CODE_WORDS = {
    "fail": "worse",
    "missing": "missing",
    "still_failing": "still not compiling",
    "warn": "worth a look",
    "info": "changed within limits",
    "fixed": "compiles again",
    "new": "new",
    "same": "same",
}
DECISION_WORDS = {
    "promote": "promote",
    "promote_with_guardrails": "promote with guardrails",
    "tune_needed": "tune needed",
    "rewrite_needed": "rewrite needed",
    "blocked": "blocked",
}
CLASS_WORDS = {
    "ok": "level with the best baseline",
    "implementation_gap": "the implementation is behind",
    "tuning_gap": "the tuning is behind",
    "algorithm_gap": "the algorithm is behind",
    "flydsl_codegen_gap": "FlyDSL's generated code is behind",
    "launch_or_roofline_limited": "at the launch or roofline limit",
    "measurement_issue": "the measurement is in doubt",
    "baseline_unfair_or_unmatched": "the baseline does other work",
}
# Codes that only repeat the word of the verdict.
_SAID_BY_VERDICT = frozenset({"slower", "faster", "newly_failed", "newly_incorrect", "missing", "waived", "fixed"})
_FIRST_ARGS = ("M", "N", "K")
_SHOWN_ARGS = 8


def decision_word(decision: Decision) -> str:
    """Whether the kernel is promoted; a run without a verdict blocks nothing, and decides nothing either."""
    undecided = decision.gate == "no_verdict" and decision.decision == "blocked"
    return "none" if undecided else DECISION_WORDS[decision.decision]


def finite(value: float | None) -> bool:
    """Whether there is a number to show."""
    return value is not None and math.isfinite(value)


def weighted(value: float | None) -> Safe:
    """A weighted speedup, which exists once a serving trace gave weights."""
    return speedup(value) if finite(value) else Safe("no weights")


def speedup(value: float | None) -> Safe:
    """A speedup: `0.88x`, above 1 = candidate faster."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    return Safe(f"{value:.2f}x" if 0.005 <= value < 1e4 else f"{value:.2g}x")


def change(ratio: float | None) -> Safe:
    """Head time over base time as a change of time: `+20.4%`, and from twice on `3.10x as long`."""
    if ratio is None or not math.isfinite(ratio):
        return NOT_MEASURED
    if ratio >= 2:
        return Safe(f"{ratio:,.2f}x as long" if ratio < 1e5 else f"{ratio:.3g}x as long")
    return Safe(f"{_signed(ratio)}%")


def interval(ci: tuple[float, float] | None) -> Safe:
    """A confidence interval of a time ratio, as changes of time: `+18.2% to +22.9%`; empty where there is none."""
    if ci is None or not all(math.isfinite(bound) for bound in ci):
        return Safe("")
    if ci[1] >= 2:
        return Safe(f"{speedup(ci[0])} to {speedup(ci[1])}")
    return Safe(f"{change(ci[0])} to {change(ci[1])}")


def _signed(ratio: float) -> str:
    text = f"{(ratio - 1) * 100:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def verdict(name: object) -> Safe:
    """The word of a row verdict; another word as it is."""
    return Safe(VERDICT_WORDS[name]) if isinstance(name, str) and name in VERDICT_WORDS else escape(str(name), limit=40)


def percent(fraction: float | None) -> Safe:
    """A fraction as `95%`."""
    if fraction is None or not math.isfinite(fraction):
        return NOT_MEASURED
    return Safe(f"{fraction * 100:.1f}%".replace(".0%", "%"))


def microseconds(value: float | None) -> str:
    """A time without its unit: `5.02`, `123.4`, `15,210`."""
    if value is None or not math.isfinite(value):
        return str(NOT_MEASURED)
    if value < 100:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}" if value < 1e9 else f"{value:.3g}"


def side(arm: str, value: float | None) -> Safe:
    """The time of one arm: `head 5.02 µs`, `head not measured`."""
    return Safe(f"{arm} {microseconds(value)} µs" if finite(value) else f"{arm} {NOT_MEASURED}")


def times(base: float | None, head: float | None) -> Safe:
    """Both times of a row: `5.00 → 6.02 µs`."""
    if not finite(base) and not finite(head):
        return NOT_MEASURED
    if finite(base) and finite(head):
        return Safe(f"{microseconds(base)} → {microseconds(head)} µs")
    old, new = (f"{microseconds(side)} µs" if finite(side) else NOT_MEASURED for side in (base, head))
    return Safe(f"{old} → {new}")


def tight(text: Safe) -> Safe:
    """Our own words and numbers in a table cell, on one line."""
    return Safe(text.replace(" ", "&nbsp;"))


def count(number: int, one: str, many: str | None = None) -> Safe:
    """`1 row`, `1,500 rows`."""
    return Safe(counted(number, one, many or ""))


def label_text(row: RowFinding) -> str:
    """Op, arguments and dtype, not made harmless yet: `rmsnorm M=32 N=8192 bf16`."""
    names = [name for name in _FIRST_ARGS if name in row.args]
    names += [name for name in row.args if name not in _FIRST_ARGS]
    shown = [f"{name}={_scalar(row.args[name])}" for name in names[:_SHOWN_ARGS]]
    if len(names) > _SHOWN_ARGS:
        shown.append(f"(+{counted(len(names) - _SHOWN_ARGS, 'argument')})")
    return " ".join([row.op_type, *shown, row.dtype])


def label(row: RowFinding) -> Safe:
    """The row's name as code."""
    return code(label_text(row))


def place(row: RowFinding) -> Safe:
    """Where the shape is used: model, stage, and whether it is hot."""
    where = say("{model}, {stage}", model=escape(row.model, limit=60), stage=row.stage.replace("_", " "))
    return say("{where}, hot", where=where) if row.hot else where


def reason(text: str) -> Safe:
    """A reason code, or `code: detail`, as its sentence; other text as it is."""
    head, colon, detail = text.partition(":")
    if colon and head in SENTENCES:
        return say("{what}:{detail}", what=sentence(head), detail=Safe(" " + escape(detail, limit=160)))
    return escape(sentence(text) if re.fullmatch(r"[a-z0-9_]+", text) else text, limit=160)


def reasons(row: RowFinding, *, told_above: frozenset[str] = frozenset()) -> Safe:
    """Why the row has its verdict: what its codes say beyond the verdict, the detail, else the evidence."""
    told = [text for text in row.reasons if text not in _SAID_BY_VERDICT and text not in told_above]
    parts = [reason(text) for text in told[:4]]
    if row.detail or (not parts and row.evidence):
        parts.append(escape(row.detail or row.evidence, limit=160))
    if told_above and not parts:
        return Safe("as said above")
    parts = parts or [reason(text) for text in row.reasons[:1]]
    return joined("; ", list(dict.fromkeys(parts))) if parts else Safe("no reason given")


def said_by_verdict(code: str) -> bool:
    """Whether a reason code only repeats the word of its verdict."""
    return code in _SAID_BY_VERDICT


def value(item: Any) -> Safe:
    """Any setting or recorded field: text as code, absent as words, numbers short, lists and maps spelled out."""
    if item is None or item == "":
        return NOT_RECORDED
    if isinstance(item, str):
        return code(item)
    if isinstance(item, (list, tuple, set, frozenset)):
        parts = [value(part) for part in (sorted(item, key=str) if isinstance(item, (set, frozenset)) else item)]
        return joined(", ", parts[:12] + [Safe("…")] * (len(parts) > 12)) if parts else Safe("none")
    if isinstance(item, Mapping):
        parts = [say("{key} {item}", key=key, item=value(part)) for key, part in item.items()]
        return joined(", ", parts) if parts else Safe("none")
    if isinstance(item, int) and not isinstance(item, bool):
        return Safe(f"{item:,}")
    return Safe(_scalar(item)) if isinstance(item, (bool, float)) else code(str(item))


def _scalar(item: Any) -> str:
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, float):
        return (f"{item:,.0f}" if 1e4 <= abs(item) < 1e15 else f"{item:.4g}") if math.isfinite(item) else "not a number"
    if item is None:
        return "none"
    return item if isinstance(item, str) else str(item) if isinstance(item, int) else json.dumps(item, default=str)


def pair(base: CodeSide | None, head: CodeSide | None, field: str) -> Safe:
    """One number of the machine code on both sides: `45 → 47`, or `45` where equal."""
    old, new = (getattr(side, field) if side is not None else None for side in (base, head))
    if old == new:
        return Safe("none" if old is None else f"{old:,}")
    left, right = ("none" if number is None else f"{number:,}" for number in (old, new))
    return tight(Safe(f"{left} → **{right}**"))
