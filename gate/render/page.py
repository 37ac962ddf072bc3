"""How a whole text is put together: what each template sees, at which detail, and how the size limit is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jinja2

from gate.model.codegen import CODEGEN_DISCLAIMER
from gate.model.decision import Decision
from gate.render import headline, machine_code, rows, sections, undecided, words
from gate.render.escape import Safe, escape
from gate.resources import templates_dir

# The most rows of a list at each step of detail; None is all of them, 0 the summary alone.
COMMENT_STEPS: tuple[int | None, ...] = (None, 400, 100, 25, 0)
SUMMARY_STEPS: tuple[int | None, ...] = (None, 4000, 400, 100, 0)
_SHORTEST_ROW = 60
_MOST_BEHIND = 50
_MARKER_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")


@cache
def engine() -> jinja2.Environment:
    """The template engine: an undefined name is an error, and what is not `Safe` is escaped on its way out."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_dir()),
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        autoescape=False,  # HTML escaping alone would leave Markdown alive; `finalize` does both.
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def finalize(value: Any) -> str:
    """The one way from a value to text in a template."""
    if isinstance(value, Safe):
        return value
    if value is None:
        return words.NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return words.value(value) if isinstance(value, float) else escape(str(value))


def render(template: str, view: Mapping[str, Any]) -> str:
    """One template as text: no blank line twice, none at the ends."""
    text = engine().get_template(template).render(view)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def fitted(
    decision: Decision, template: str, *, budget: int, steps: Sequence[int | None], extra: Mapping[str, Any]
) -> str:
    """The most detailed rendering within `budget` characters and `budget` UTF-8 bytes; nothing is cut.

    Raises ValueError if even the summary is larger than the budget.
    """
    size = longest = 0
    for cap in steps:
        hopeless = cap is None and _long(decision) * _SHORTEST_ROW > budget
        if hopeless or (size and cap is not None and cap >= longest):
            continue  # Too long without trying, or the same text as the step before.
        seen = view(decision, cap=cap)
        longest = max(item.total for item in seen.values() if isinstance(item, rows.Listing))
        text = render(template, {**seen, **extra})
        size = max(len(text), len(text.encode("utf-8")))
        if size <= budget:
            return text
    raise ValueError(f"a budget of {budget} is too small: the shortest text takes {size} bytes")


def _long(decision: Decision) -> int:
    lists = (rows.changed(decision), undecided.not_compared(decision), undecided.left_open(decision))
    return max(*map(len, lists), len(machine_code.kernels(decision)))


def view(decision: Decision, *, cap: int | None) -> dict[str, Any]:
    """Everything the templates may show, in lists of at most `cap` items."""
    timed = decision.kind == "timing"
    changed = rows.changed(decision) if timed else []
    behind = _MOST_BEHIND if cap is None else min(cap, _MOST_BEHIND)
    return {
        "title": headline.title(decision),
        "lead": headline.lead(decision),
        "summary": escape(decision.summary) if decision.summary else None,
        "kind": decision.kind,
        "decision": Safe(words.decision_word(decision)),
        "counts": headline.counts(decision),
        "coverage": sections.coverage(decision),
        "notes": [*sections.notes(decision), *sections.shared(changed)],
        "not_compared": sections.reasons_not_compared(decision),
        "changed": rows.lines(changed, cap=cap),
        "left_open": rows.lines(undecided.left_open(decision), cap=cap),
        "settled": Safe(undecided.settled(decision)),
        "unjudged": rows.lines(undecided.not_compared(decision), cap=cap),
        "behind": rows.listing(rows.behind(decision), rows.line, cap=behind),
        "doubtful": rows.listing(rows.doubtful(decision), rows.line, cap=behind),
        "standings": rows.listing(decision.standings, sections.group, cap=cap),
        "geomean": sections.geomean(decision),
        "environment": rows.listing(sections.environment(decision), lambda field: field, cap=cap),
        "rule": sections.rule(decision),
        "error_rates": rows.listing(sections.error_rates(decision), lambda pair: pair, cap=cap),
        "problems": rows.listing(decision.problems, sections.problem, cap=cap),
        "waivers": rows.listing(decision.waivers, sections.waiver, cap=cap),
        "controls": rows.listing(decision.controls if timed else (), sections.control, cap=cap),
        "commands": rows.listing(decision.commands, sections.command, cap=4),
        "disclaimer": Safe(CODEGEN_DISCLAIMER),
        **_code_lists(decision, cap=cap),
    }


def _code_lists(decision: Decision, *, cap: int | None) -> dict[str, Any]:
    found = machine_code.kernels(decision)
    open_groups = machine_code.grouped(machine_code.changed(found))
    quiet_groups = machine_code.grouped(machine_code.alike(found))
    several = machine_code.several([*open_groups, *quiet_groups])
    return {
        "kernels": rows.listing(open_groups, machine_code.line, cap=cap),
        "alike": rows.listing(quiet_groups, machine_code.line, cap=cap),
        "alike_kernels": Safe(f"{len(machine_code.alike(found)):,}"),
        "members": rows.listing(several, lambda group: machine_code.members(group, cap=cap), cap=cap),
    }


def marker(key: str, facts: Mapping[str, str]) -> Safe:
    """The hidden first line that tells our comment of this key, `<!-- flydsl-gate:KEY v1 run=7.1 head=SHA -->`.

    Raises ValueError for a key or fact that is not one plain word: it could end the HTML comment.
    """
    parts = [f"{name}={value}" for name, value in facts.items()]
    for word in (key, *facts, *facts.values()):
        if not _MARKER_WORD.fullmatch(word):
            raise ValueError(f"not a plain word for a comment marker: {word!r}")
    return Safe(" ".join(["<!--", f"flydsl-gate:{key}", "v1", *parts, "-->"]))


def worse(decision: Decision) -> dict[str, Any]:
    """The lists of the regression summary: every worse row, every changed kernel."""
    found = [row for row in rows.changed(decision) if row.verdict in rows.WORSE]
    return {"worse": rows.listing(found, rows.line, cap=None), **_code_lists(decision, cap=None)}
