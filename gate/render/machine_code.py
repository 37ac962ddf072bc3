"""How a comparison of machine code reads: one line per compile key, with the shapes that share it."""

from __future__ import annotations

from dataclasses import dataclass

from gate.model.decision import CodeEvidence, Decision, RowFinding
from gate.model.severity import severity
from gate.render import words
from gate.render.escape import Safe, code, escape, joined, say

KEY_LIMIT = 120
OPEN = ("fail", "missing", "still_failing", "warn", "fixed", "new")
WORSE = frozenset({"fail", "missing", "still_failing"})
RATED = WORSE | {"warn"}
_RANK = {verdict: rank for rank, verdict in enumerate(words.CODE_WORDS)}


@dataclass(frozen=True)
class Kernel:
    """One compile key: what was found, and the rows that run this code."""

    evidence: CodeEvidence
    rows: tuple[RowFinding, ...]


@dataclass(frozen=True)
class Alike:
    """Kernels of one op and dtype whose numbers changed alike: same verdict, same registers, instructions, waves."""

    kernels: tuple[Kernel, ...]

    @property
    def first(self) -> Kernel:
        return self.kernels[0]


@dataclass(frozen=True)
class Line:
    """Kernels that changed alike in words; every field is ready Markdown."""

    result: Safe
    key: Safe
    shapes: Safe
    vgpr: Safe
    instructions: Safe
    waves: Safe
    spills: Safe
    finding: Safe


def kernels(decision: Decision) -> list[Kernel]:
    """The compile keys of the run, worst verdict and change first, then by number of shapes, then by key."""
    groups: dict[str, list[RowFinding]] = {}
    for row in decision.rows:
        if row.code is not None:
            groups.setdefault(row.code.compile_key, []).append(row)
    found = [Kernel(evidence=rows[0].code, rows=tuple(rows)) for rows in groups.values() if rows[0].code is not None]
    return sorted(
        found, key=lambda kernel: (_rank(kernel), _severity(kernel), -len(kernel.rows), kernel.evidence.compile_key)
    )


def _severity(kernel: Kernel) -> tuple[int, ...]:
    """Of a change that crosses no limit nothing is bad."""
    return severity(kernel.evidence) if kernel.evidence.verdict in RATED else ()


def _rank(kernel: Kernel) -> int:
    return _RANK.get(kernel.evidence.verdict, 0)


def changed(found: list[Kernel]) -> list[Kernel]:
    """The kernels to look at: worse, missing, worth a look, new or compiling again."""
    return [kernel for kernel in found if kernel.evidence.verdict not in ("info", "same")]


def alike(found: list[Kernel]) -> list[Kernel]:
    """The kernels whose code differs without crossing a threshold."""
    return [kernel for kernel in found if kernel.evidence.verdict == "info"]


def grouped(found: list[Kernel]) -> list[Alike]:
    """The kernels that changed alike together, in the order of the first of each."""
    groups: dict[tuple[object, ...], list[Kernel]] = {}
    for kernel in found:
        groups.setdefault(_numbers(kernel), []).append(kernel)
    return [Alike(kernels=tuple(kernels)) for kernels in groups.values()]


def _numbers(kernel: Kernel) -> tuple[object, ...]:
    row, evidence = kernel.rows[0], kernel.evidence
    sides = [
        None if side is None else (side.vgpr, side.instructions, side.waves_per_simd, side.spills)
        for side in (evidence.base, evidence.head)
    ]
    if sides == [None, None]:
        return (evidence.verdict, evidence.compile_key)  # Nothing was compared, so nothing is alike.
    return (evidence.verdict, row.op_type, row.dtype, *sides)


def line(alike: Alike) -> Line:
    """Everything that the table says of kernels that changed alike."""
    evidence = alike.first.evidence
    word = result(evidence.verdict)
    return Line(
        result=words.tight(Safe(f"**{word}**" if evidence.verdict in WORSE else word)),
        key=name(alike),
        shapes=Safe(f"{shapes(alike):,}"),
        vgpr=words.pair(evidence.base, evidence.head, "vgpr"),
        instructions=words.pair(evidence.base, evidence.head, "instructions"),
        waves=words.pair(evidence.base, evidence.head, "waves_per_simd"),
        spills=words.pair(evidence.base, evidence.head, "spills"),
        finding=_with_page(evidence),
    )


def name(alike: Alike) -> Safe:
    """The first kernel and how many more there are: `rmsnorm/bf16/N=1024 and 29 more`."""
    key, others = code(alike.first.evidence.compile_key, limit=KEY_LIMIT), len(alike.kernels) - 1
    return say("{key} and {n} more", key=key, n=Safe(f"{others:,}")) if others else key


def shapes(alike: Alike) -> int:
    """How many rows run these kernels."""
    return sum(len(kernel.rows) for kernel in alike.kernels)


def several(groups: list[Alike]) -> list[Alike]:
    """The groups with more than one kernel, whose other members the table does not name."""
    return [alike for alike in groups if len(alike.kernels) > 1]


def members(alike: Alike, *, cap: int | None) -> Safe:
    """At most `cap` kernels of a group by name; one whose finding differs from the first's says its own."""
    said, chosen = finding(alike.first.evidence), alike.kernels[:cap]
    parts = [_member(kernel, said) for kernel in chosen]
    rest = len(alike.kernels) - len(chosen)
    return joined(", ", [*parts, Safe(f"and {rest:,} more, all in `decision.json`")] if rest else parts)


def _member(kernel: Kernel, said: Safe) -> Safe:
    key, own = code(kernel.evidence.compile_key, limit=KEY_LIMIT), finding(kernel.evidence)
    return key if own == said else say("{key} ({own})", key=key, own=own)


def result(verdict: str) -> Safe:
    """The word of a codegen verdict; one that is not in the list reads as it is."""
    return Safe(words.CODE_WORDS[verdict]) if verdict in words.CODE_WORDS else escape(verdict, limit=40)


def finding(evidence: CodeEvidence) -> Safe:
    """The first sentences found, and how many more there are."""
    if not evidence.findings:
        return Safe("nothing to report")
    parts = [escape(text.rstrip("."), limit=160) for text in evidence.findings[:3]]
    if len(evidence.findings) > 3:
        parts.append(Safe(f"and {len(evidence.findings) - 3} more"))
    return joined("; ", parts)


def _with_page(evidence: CodeEvidence) -> Safe:
    """What was found, and which file of the artifact shows base beside head."""
    said = finding(evidence)
    if not evidence.page:
        return said
    return say("{said}; see {page}", said=Safe(said.rstrip(".")), page=code(evidence.page, limit=KEY_LIMIT))


def counts(found: list[Kernel], *, rows: int) -> Safe:
    """`12 kernels for 493 rows: 1 worse, 11 same`."""
    tally: dict[str, int] = {}
    for kernel in found:
        tally[kernel.evidence.verdict] = tally.get(kernel.evidence.verdict, 0) + 1
    parts = [say("{n} {word}", n=Safe(f"{n:,}"), word=result(verdict)) for verdict, n in tally.items()]
    total = say("{kernels} for {rows}", kernels=words.count(len(found), "kernel"), rows=words.count(rows, "row"))
    return say("{total}: {parts}", total=total, parts=joined(", ", parts)) if parts else total
