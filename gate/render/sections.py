"""How the parts around the rows read: environment, rule, standings, controls, waivers, problems, commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gate.model.decision import Command, ControlMovement, Decision, RowFinding, Standing
from gate.render import rows, undecided, words
from gate.render.escape import Safe, code, escape, fenced, joined, say

LONGEST_COMMAND = 600
_NOTE_LIMIT = 160
_MOST_FIELDS = 12
# The rule in sentences: policy table and key, how its value reads, and the sentence.
_RULE: tuple[tuple[str, str, Callable[[Any], Safe], str], ...] = (
    ("thresholds", "slower", words.percent, "A row is slower when a slowdown of more than {x} is established."),
    (
        "thresholds",
        "not_slower",
        words.percent,
        "It is not slower when {x} or more is excluded; between, too noisy to tell.",
    ),
    ("screen", "fdr", words.percent, "The first test of all rows lets through {x} false suspects."),
    ("confirm", "alpha", words.percent, "A second test confirms them: {x} chance of any false one."),
    ("geomean", "limit", words.percent, "The run also blocks when its rows together are slower by more than {x}."),
    ("coverage", "measured", words.percent, "Of the required rows {x} must be compared."),
    ("standing", "promote", words.speedup, "Promote from {x} of the best baseline,"),
    ("standing", "guardrails", words.speedup, "with guardrails from {x},"),
    ("standing", "tune", words.speedup, "tune from {x}, rewrite below."),
    ("codegen", "warn", words.verdict, "A row whose machine code is only worth a look counts as {x}."),
)
_SPEAKS_OF = {"timing": {"codegen"}, "codegen": {"thresholds", "screen", "confirm", "geomean", "standing"}}


@dataclass(frozen=True)
class Field:
    """One field of the two stacks."""

    name: Safe
    base: Safe
    head: Safe
    differs: bool


@dataclass(frozen=True)
class Group:
    """The standing of one group of rows."""

    by: Safe
    name: Safe
    rows: Safe
    vs_best: Safe
    weighted: Safe
    vs_base: Safe


@dataclass(frozen=True)
class Control:
    """How one baseline behaved."""

    name: Safe
    rows: Safe
    change: Safe
    word: Safe


def environment(decision: Decision) -> list[Field]:
    """Every recorded field of both stacks, those that differ first."""
    base, head = decision.environment.base, decision.environment.head
    differs = set(decision.environment.differences)
    names = sorted({*base, *head, *differs}, key=lambda name: (name not in differs, name))
    return [
        Field(
            name=escape(name.replace("_", " "), limit=40),
            base=words.value(base.get(name)),
            head=words.value(head.get(name)),
            differs=name in differs,
        )
        for name in names
    ]


def group(standing: Standing) -> Group:
    """One line of the standings."""
    return Group(
        by=escape(standing.by, limit=20),
        name=code(standing.name, limit=60),
        rows=Safe(f"{standing.rows:,}"),
        vs_best=words.speedup(standing.geomean.vs_best),
        weighted=words.weighted(standing.geomean.weighted),
        vs_base=words.speedup(standing.geomean.vs_base),
    )


def control(movement: ControlMovement) -> Control:
    """One line of the controls."""
    return Control(
        name=code(movement.provider, limit=60),
        rows=Safe(f"{movement.n:,}"),
        change=words.change(movement.ratio if movement.n else None),
        word=_control_word(movement),
    )


def _control_word(movement: ControlMovement) -> Safe:
    """A control without a paired row was not measured, whatever its other fields say: it is never steady."""
    if movement.absent:
        return Safe("not measured in the head")
    if not movement.n or not words.finite(movement.ratio):
        return words.NOT_MEASURED
    return Safe("moved" if movement.moved else "steady")


def rule(decision: Decision) -> Safe:
    """The policy that gave the verdict, in sentences; what has no sentence is in decision.json."""
    said: list[Safe] = []
    for table, key, reads, pattern in _RULE:
        found = decision.policy.get(table)
        if table in _SPEAKS_OF[decision.kind] or not isinstance(found, Mapping) or key not in found:
            continue
        said.append(say(pattern, x=reads(found[key])))
    return joined(" ", [*said, Safe("All settings are in `decision.json` under `policy`.")])


def error_rates(decision: Decision) -> list[tuple[Safe, Safe]]:
    """How often the rule is wrong, as the judge states it."""
    return [(escape(name.replace("_", " "), limit=80), _setting(item)) for name, item in decision.error_rates.items()]


def _setting(item: Any) -> Safe:
    if isinstance(item, str):
        return escape(item)
    if not isinstance(item, Mapping):
        return words.value(item)
    return joined(", ", _pairs(item))


def _pairs(fields: Mapping[str, Any]) -> list[Safe]:
    shown = list(fields.items())[:_MOST_FIELDS]
    parts = [say("{key} {item}", key=key.replace("_", " "), item=words.value(item)) for key, item in shown]
    return [*parts, Safe(f"and {len(fields) - _MOST_FIELDS} more")] if len(fields) > _MOST_FIELDS else parts


def waiver(entry: Mapping[str, Any]) -> Safe:
    """One waiver: its fields in the order they are recorded, `key value` each."""
    flat: dict[str, Any] = {}
    for key, item in entry.items():
        flat.update(item if isinstance(item, Mapping) else {key: item})
    return joined("; ", _pairs(flat))


def problem(text: str) -> Safe:
    """One problem of the inputs."""
    return escape(text)


def notes(decision: Decision) -> list[Safe]:
    """What a reader must know before believing the verdict: differences, absent or moved controls, gaps, problems."""
    found = [say("This run covers {scope}", scope=escape(decision.scope))] if decision.scope else []
    found += [words.reason(text) for text in decision.reasons[:6]]
    if len(decision.reasons) > 6:
        found.append(Safe(f"and {words.count(len(decision.reasons) - 6, 'more reason')}, all in `decision.json`"))
    for word, members in (
        ("Not measured in the head, so not among the best", [m.provider for m in decision.controls if m.absent]),
        ("Moved though this commit does not touch them", [m.provider for m in decision.controls if m.moved]),
        ("The environment differs in", [name.replace("_", " ") for name in decision.environment.differences]),
    ):
        if members:
            found.append(say("{word}: {names}", word=word, names=escape(", ".join(members), limit=_NOTE_LIMIT)))
    if decision.problems:
        found.append(say("{n} in the inputs, listed below", n=words.count(len(decision.problems), "problem")))
    return list(dict.fromkeys(found))


def shared(changed: Sequence[RowFinding]) -> list[Safe]:
    """The reasons that every changed row has, one note each."""
    total = Safe(f"{len(changed):,}")
    return [
        say("True of all {n} changed rows: {why}", n=total, why=words.reason(code)) for code in rows.shared(changed)
    ]


def coverage(decision: Decision) -> Safe:
    """How many rows were judged and how many the policy asks for."""
    cover = decision.coverage
    if not cover.required:
        return Safe("No row could be judged")
    required = words.count(cover.required, "row")
    text = say("{judged} of {required} judged", judged=Safe(f"{cover.judged:,}"), required=required)
    if cover.share >= cover.required_share:
        return text
    return say("{text}; the policy asks for {share}", text=text, share=words.percent(cover.required_share))


def reasons_not_judged(decision: Decision) -> list[Safe]:
    """`7 rows: base and head ran on different GPUs or stacks`, most frequent first."""
    return _told(undecided.why(decision))


def reasons_not_compared(decision: Decision) -> list[Safe]:
    """As `reasons_not_judged`, of the rows without a comparison."""
    return _told(undecided.why_not_compared(decision))


def _told(found: Sequence[tuple[Safe, int]]) -> list[Safe]:
    return [say("{n}: {why}", n=words.count(n, "row"), why=why) for why, n in found[:5]]


def command(item: Command) -> tuple[Safe, Safe]:
    """What the command is for and the command itself; one too long for a comment is named, never cut."""
    what = escape(item.what, limit=_NOTE_LIMIT)
    if len(item.line) > LONGEST_COMMAND:
        return what, Safe(f"This command has {len(item.line):,} characters; it is in `decision.json` under `commands`.")
    return what, fenced(item.line)


def geomean(decision: Decision) -> Safe:
    """The standing of the whole run in one sentence."""
    mean = decision.geomean
    if not words.finite(mean.vs_best):
        return Safe("No geomean against the best baseline: nothing was paired with one.")
    parts = [say("{x} of the best baseline", x=words.speedup(mean.vs_best))]
    if words.finite(mean.weighted):
        parts.append(say("{x} of it by traffic weight", x=words.speedup(mean.weighted)))
    if words.finite(mean.vs_base):
        parts.append(say("{x} of the base", x=words.speedup(mean.vs_base)))
    return say("Geomean over {n}: {parts}.", n=words.count(mean.n, "paired row"), parts=joined(", ", parts))
