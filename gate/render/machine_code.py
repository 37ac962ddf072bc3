"""How a comparison of machine code reads: one line per compile key, with the shapes that share it."""

from __future__ import annotations

from dataclasses import dataclass

from gate.model.decision import CodeEvidence, Decision, RowFinding
from gate.render import words
from gate.render.escape import Safe, code, escape, joined, say

KEY_LIMIT = 120
OPEN = ("fail", "missing", "still_failing", "warn", "fixed", "new")
WORSE = frozenset({"fail", "missing", "still_failing"})
_RANK = {verdict: rank for rank, verdict in enumerate(words.CODE_WORDS)}


@dataclass(frozen=True)
class Kernel:
    """One compile key: what was found, and the rows that run this code."""

    evidence: CodeEvidence
    rows: tuple[RowFinding, ...]


@dataclass(frozen=True)
class Line:
    """One kernel in words; every field is ready Markdown."""

    result: Safe
    key: Safe
    shapes: Safe
    vgpr: Safe
    instructions: Safe
    waves: Safe
    spills: Safe
    finding: Safe


def kernels(decision: Decision) -> list[Kernel]:
    """The compile keys of the run, worst first, then by number of shapes, then by key."""
    groups: dict[str, list[RowFinding]] = {}
    for row in decision.rows:
        if row.code is not None:
            groups.setdefault(row.code.compile_key, []).append(row)
    found = [Kernel(evidence=rows[0].code, rows=tuple(rows)) for rows in groups.values() if rows[0].code is not None]
    return sorted(found, key=lambda kernel: (_rank(kernel), -len(kernel.rows), kernel.evidence.compile_key))


def _rank(kernel: Kernel) -> int:
    return _RANK.get(kernel.evidence.verdict, 0)


def changed(found: list[Kernel]) -> list[Kernel]:
    """The kernels to look at: worse, missing, worth a look, new or compiling again."""
    return [kernel for kernel in found if kernel.evidence.verdict not in ("info", "same")]


def alike(found: list[Kernel]) -> list[Kernel]:
    """The kernels whose code differs without crossing a threshold."""
    return [kernel for kernel in found if kernel.evidence.verdict == "info"]


def line(kernel: Kernel) -> Line:
    """Everything that the table says of one kernel."""
    evidence = kernel.evidence
    word = result(evidence.verdict)
    return Line(
        result=words.tight(Safe(f"**{word}**" if evidence.verdict in WORSE else word)),
        key=code(evidence.compile_key, limit=KEY_LIMIT),
        shapes=Safe(f"{len(kernel.rows):,}"),
        vgpr=words.pair(evidence.base, evidence.head, "vgpr"),
        instructions=words.pair(evidence.base, evidence.head, "instructions"),
        waves=words.pair(evidence.base, evidence.head, "waves_per_simd"),
        spills=words.pair(evidence.base, evidence.head, "spills"),
        finding=finding(evidence),
    )


def result(verdict: str) -> Safe:
    """The word of a codegen verdict; one that is not in the list reads as it is."""
    return Safe(words.CODE_WORDS[verdict]) if verdict in words.CODE_WORDS else escape(verdict, limit=40)


def finding(evidence: CodeEvidence) -> Safe:
    """The first sentences found, and how many more there are."""
    if not evidence.findings:
        return Safe("nothing to report")
    parts = [escape(text, limit=160) for text in evidence.findings[:3]]
    if len(evidence.findings) > 3:
        parts.append(Safe(f"and {len(evidence.findings) - 3} more"))
    return joined("; ", parts)


def counts(found: list[Kernel], *, rows: int) -> Safe:
    """`12 kernels for 493 rows: 1 worse, 11 same`."""
    tally: dict[str, int] = {}
    for kernel in found:
        tally[kernel.evidence.verdict] = tally.get(kernel.evidence.verdict, 0) + 1
    parts = [say("{n} {word}", n=Safe(f"{n:,}"), word=result(verdict)) for verdict, n in tally.items()]
    total = say("{kernels} for {rows}", kernels=words.count(len(found), "kernel"), rows=words.count(rows, "row"))
    return say("{total}: {parts}", total=total, parts=joined(", ", parts)) if parts else total
