"""How a verdict reads in its first two lines and in a commit status: verdict, count, worst case, next step."""

from __future__ import annotations

from gate.model.decision import Decision, RowFinding
from gate.model.reasons import SENTENCES, sentence
from gate.model.status import CommitStatus
from gate.render import machine_code, rows, sections, undecided, words
from gate.render.escape import Safe, escape, joined, say, visible

DESCRIPTION_LIMIT = 140
STATES = {"pass": "success", "block": "failure", "no_verdict": "error"}
_GEOMEAN_WORD = "of the best baseline"
_NAME_LIMITS = (70, 40)
# A growth that reads as more than nothing.
LEAST_TOLD = 0.0005


def title(decision: Decision) -> Safe:
    """The first line: sign, verdict and count. Made of our own words and numbers only."""
    return Safe(f"{_sign(decision)} {verdict(decision)}: {_tally(decision)}")


def lead(decision: Decision) -> Safe:
    """The second line: the worst case, and what to do next."""
    step = escape(decision.next_step, limit=400) if decision.next_step else Safe("nothing to do")
    case = _worst_kernel(decision) if decision.kind == "codegen" else _worst_row(decision)
    return say("{case}**Next:** {step}", case=say("{case} ", case=case) if case else Safe(""), step=step)


def verdict(decision: Decision) -> str:
    """The verdict in words: `Blocked`, `Pass, tune needed`, `Pass on machine code`."""
    if decision.kind == "codegen":
        return {"pass": "Pass on machine code", "block": "Blocked on machine code"}.get(
            decision.gate, "No verdict on machine code"
        )
    if decision.gate == "pass":
        return f"Pass, {words.decision_word(decision)}"
    return "Blocked" if decision.gate == "block" else "No verdict"


def _sign(decision: Decision) -> str:
    if decision.gate != "pass":
        return "❌" if decision.gate == "block" else "❓"
    if decision.kind == "codegen":
        return "⚠️" if machine_code.changed(machine_code.kernels(decision)) else "✅"
    return "⚠️" if decision.headline == "tune" else "✅"


def _tally(decision: Decision) -> str:
    if decision.kind == "codegen" and decision.gate == "no_verdict":
        why = next((SENTENCES[code] for code in decision.reasons if code in SENTENCES), None)
        return why or _kernel_tally(decision)
    return _kernel_tally(decision) if decision.kind == "codegen" else _row_tally(decision)


def _row_tally(decision: Decision) -> str:
    number = decision.counts.get("total", len(decision.rows))
    total = words.count(number, "row")
    worse = [name for name in words.VERDICT_WORDS if name in rows.WORSE and decision.counts.get(name)]
    gaps = rows.UNJUDGED if decision.gate == "no_verdict" else ("inconclusive",)
    named = [*worse, *(name for name in gaps if decision.counts.get(name))]
    parts = [(decision.counts[name], words.VERDICT_WORDS[name]) for name in named]
    if decision.gate == "pass" and not worse:
        told = [f"{n:,} {word}" for n, word in parts]
        return ", ".join([f"none of {total} slower", *told, *_geomean(decision)])
    if not parts:
        judged = f"{decision.coverage.judged:,} of {total} judged"
        return next((SENTENCES[name] for name in decision.reasons if name in SENTENCES), judged)
    return _of(parts, number, "row")


def _of(parts: list[tuple[int, str]], number: int, noun: str) -> str:
    """`1 of 8 rows slower`; with several kinds `2 slower, 1 missing of 8 rows`."""
    total = words.count(number, noun)
    if len(parts) == 1:
        return f"{parts[0][0]:,} of {total} {parts[0][1]}"
    return f"{', '.join(f'{n:,} {word}' for n, word in parts)} of {total}"


def _short_tally(decision: Decision) -> str:
    worse = sum(decision.counts.get(name, 0) for name in rows.WORSE)
    gaps = sum(decision.counts.get(name, 0) for name in rows.UNJUDGED)
    total = words.count(decision.counts.get("total", len(decision.rows)), "row")
    return f"{worse:,} worse or missing and {gaps:,} without a clear comparison, of {total}"


def _geomean(decision: Decision) -> list[str]:
    best = decision.geomean.vs_best
    return [f"{words.speedup(best)} {_GEOMEAN_WORD}"] if words.finite(best) else []


def _kernel_tally(decision: Decision) -> str:
    found = machine_code.kernels(decision)
    tally = {word: sum(kernel.evidence.verdict == word for kernel in found) for word in words.CODE_WORDS}
    parts = [(tally[word], words.CODE_WORDS[word]) for word in words.CODE_WORDS if tally[word] and word != "same"]
    if not found:
        return "no kernel compared"
    return _of(parts, len(found), "kernel") if parts else f"same code for {words.count(len(found), 'kernel')}"


def _worst_row(decision: Decision) -> Safe | None:
    if decision.gate == "no_verdict" and (why := sections.reasons_not_judged(decision)):
        return joined(" ", [say("Why: {why}.", why=why[0]), *_most_open(decision)])
    row = rows.worst(decision)
    if decision.gate == "no_verdict" and (row is None or row.verdict not in rows.WORSE):
        return _first_problem(decision)
    if row is None:
        return say("Why: {why}.", why=words.reason(decision.reasons[0])) if decision.reasons else None
    if row.verdict not in rows.WORSE:
        far = say("{shape} ({place}) {x}", shape=words.label(row), place=words.place(row), x=rows.standing(row))
        return say("Lowest against the best baseline: {far}.", far=far)
    return say("Worst: {shape} ({place}) {case}.", shape=words.label(row), place=words.place(row), case=_case(row))


def _most_open(decision: Decision) -> list[Safe]:
    """The open row whose time grew most, where any did."""
    grown = [row for row in undecided.left_open(decision) if (row.ratio or 0.0) > 1 + LEAST_TOLD]
    if not grown:
        return []
    shape, place = words.label(grown[0]), words.place(grown[0])
    return [say("Largest: {shape} ({place}) {case}.", shape=shape, place=place, case=_case(grown[0]))]


def _first_problem(decision: Decision) -> Safe | None:
    if decision.problems:
        return say("Why: {why}.", why=sections.problem(decision.problems[0]))
    return say("Why: {why}.", why=words.reason(decision.reasons[0])) if decision.reasons else None


def _case(row: RowFinding) -> Safe:
    if words.finite(row.ratio):
        return say("{change}, {times}", change=words.change(row.ratio), times=words.times(row.base_us, row.head_us))
    return say("{word}: {why}", word=words.VERDICT_WORDS[row.verdict], why=words.reasons(row))


def _worst_kernel(decision: Decision) -> Safe | None:
    found = machine_code.kernels(decision)
    if not machine_code.changed(found):
        if decision.gate != "no_verdict":
            return None
        why = sections.reasons_not_judged(decision)
        return say("Why: {why}.", why=why[0]) if why else _first_problem(decision)
    group = machine_code.grouped(found)[0]
    name = machine_code.name(group)
    size = words.count(machine_code.shapes(group), "row")
    return say("Worst: {name} ({size}): {what}.", name=name, size=size, what=_what(group.first))


def _what(kernel: machine_code.Kernel) -> Safe:
    text = machine_code.finding(kernel.evidence)
    return Safe(text.rstrip(".")) if kernel.evidence.findings else machine_code.result(kernel.evidence.verdict)


def status(decision: Decision, target: str | None = None) -> CommitStatus:
    """The commit status: the longest description that fits 140 characters; never one that is cut."""
    first = f"{verdict(decision)}: {_tally(decision)}"
    options = [f"{first}; {more}" for more in _status_details(decision)]
    options += [first, f"{verdict(decision)}: {_short_tally(decision)}"]
    description = next(text for text in options if len(text) <= DESCRIPTION_LIMIT)
    state = STATES[decision.gate]
    return CommitStatus(state=state, description=description, target=target)  # type: ignore[arg-type]


def _status_details(decision: Decision) -> list[str]:
    if decision.gate == "no_verdict":
        told = _tally(decision)
        more = [*decision.problems[:1], *map(sentence, decision.reasons)]
        return [_plain(text, 90) for text in more if text != told]
    if decision.kind == "codegen":
        found = machine_code.changed(machine_code.kernels(decision))
        return [f"first {_plain(found[0].evidence.compile_key, limit)}" for limit in _NAME_LIMITS] if found else []
    row = rows.worst(decision)
    if row is None:
        return []
    case = words.change(row.ratio) if row.verdict in rows.WORSE and words.finite(row.ratio) else None
    if row.verdict in rows.WORSE:
        said = f"worst {case}" if case else "worst"
        return [f"{said} {_plain(words.label_text(row), limit)}" for limit in _NAME_LIMITS]
    return [
        f"lowest {words.speedup(row.speedup_vs_best)} {_plain(words.label_text(row), limit)}" for limit in _NAME_LIMITS
    ]


def _plain(text: str, limit: int) -> str:
    """Plain text for a status, which takes no character beyond the basic plane (GitHub refuses four-byte ones)."""
    return "".join(char if ord(char) < 0x10000 else "�" for char in visible(text, limit=limit))


def counts(decision: Decision) -> Safe:
    """The line of counts under the first two."""
    if decision.kind == "timing":
        return rows.counts(decision)
    found = machine_code.kernels(decision)
    compared = sum(len(kernel.rows) for kernel in found)
    bare = len(undecided.not_compared(decision))
    parts = [machine_code.counts(found, rows=compared)]
    if bare:
        parts.append(say("{n} without machine code", n=words.count(bare, "row")))
    return joined("; ", parts)
