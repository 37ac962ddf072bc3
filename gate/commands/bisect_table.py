"""The report of a bisection: bisect.json, and the lines that tell it."""

from __future__ import annotations

from typing import Literal

import msgspec

from gate.bisect.answer import Found, Step, Word
from gate.commands.bisect_versions import Source
from gate.commands.telling import say
from gate.model.text import counted

REPORT_FILE = "bisect.json"
WORDS = {"found": "FOUND", "no_regression": "NO REGRESSION", "undecided": "UNDECIDED"}


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """One decided version by name; see gate.bisect.answer.Step."""

    version: str
    subject: str
    against: str | None
    state: str
    how: str
    words: str
    ratio: float | None
    low: float | None
    high: float | None
    process_pairs: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """bisect.json: the answer with the names of the versions. Ratios above 1 mean slower."""

    schema: Literal["gate.bisect/1"] = "gate.bisect/1"
    word: Word
    sentence: str
    suspects: tuple[str, ...]
    subjects: tuple[str, ...]
    last_good: str | None
    slowdown: float | None
    confirmed: float | None
    alpha: float
    kind: str
    versions: int
    process_pairs: int
    gpu_s: float
    steps: tuple[Decided, ...]


def report_of(found: Found, source: Source, *, alpha: float) -> Report:
    """The answer with names for numbers."""
    versions = source.versions
    return Report(
        word=found.word,
        sentence=found.sentence,
        suspects=tuple(versions[index].name for index in found.suspects),
        subjects=tuple(versions[index].subject for index in found.suspects),
        last_good=None if found.last_good is None else versions[found.last_good].name,
        slowdown=found.slowdown,
        confirmed=found.confirmed,
        alpha=alpha,
        kind=source.kind,
        versions=len(versions),
        process_pairs=found.process_pairs,
        gpu_s=round(found.gpu_s, 4),
        steps=tuple(_decided(step, source) for step in found.steps),
    )


def _decided(step: Step, source: Source) -> Decided:
    version = source.versions[step.version]
    return Decided(
        version=version.name,
        subject=version.subject,
        against=None if step.against is None else source.versions[step.against].name,
        state=step.state,
        how=step.how,
        words=step.words,
        ratio=step.ratio,
        low=step.low,
        high=step.high,
        process_pairs=step.process_pairs,
    )


def show(report: Report) -> None:
    """Writes the report as lines on stdout, the answer first."""
    names = " ".join(name[:12] for name in report.suspects)
    say(" ".join(filter(None, (WORDS[report.word], names))) + f": {report.sentence}")
    for name, subject in zip(report.suspects, report.subjects, strict=True):
        say(f"  {name[:12]} {subject}")
    if report.last_good is not None:
        say(f"  last good: {report.last_good[:12]}")
    for step in report.steps:
        against = f" against {step.against[:12]}" if step.against else ""
        say(f"  {step.version[:12]}{against}: {step.state} by {step.how}: {step.words}")
    say(
        f"{counted(len(report.steps), 'decision')} over {report.versions} {report.kind}, "
        f"{counted(report.process_pairs, 'process pair')}, "
        f"{report.gpu_s:.2f} s of GPU time; chance of a wrong answer at most {report.alpha:.1%}"
    )
