"""How a decision becomes text: comment, status, step summary and regression summary, as pure functions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gate.model.decision import Decision
from gate.model.status import CommitStatus
from gate.render import headline, page, rows

COMMENT_LIMIT = 65_536
STEP_SUMMARY_LIMIT = 1_048_576


def comment(
    decision: Decision,
    *,
    budget: int = COMMENT_LIMIT,
    key: str = "main",
    facts: Mapping[str, str] | None = None,
) -> str:
    """The pull request comment as GitHub Markdown, at most `budget` characters and UTF-8 bytes.

    `key` and `facts` (plain words, such as run and head) go into the hidden marker of the first line. Raises
    ValueError for a marker word that is not plain and for a budget below the bare summary.
    """
    extra = {"marker": page.marker(key, facts or {})}
    return page.fitted(rows.arranged(decision), "comment.md.j2", budget=budget, steps=page.COMMENT_STEPS, extra=extra)


def status(decision: Decision, target: str | None = None) -> CommitStatus:
    """The commit status; its description is at most 140 characters, none outside the basic plane."""
    return headline.status(rows.arranged(decision), target)


def step_summary(decision: Decision, *, budget: int = STEP_SUMMARY_LIMIT) -> str:
    """The job's step summary as GitHub Markdown, at most `budget` (1 MiB) characters and UTF-8 bytes."""
    return page.fitted(rows.arranged(decision), "step_summary.md.j2", budget=budget, steps=page.SUMMARY_STEPS, extra={})


def regression_summary(decision: Decision) -> str:
    """Every worse row with its evidence and likely fix, worst first; a file, so without a size limit."""
    decision = rows.arranged(decision)
    return page.render("regression_summary.md.j2", {**page.view(decision, cap=0), **page.worse(decision)})


def texts(decision: Decision, *, target: str | None = None) -> dict[str, str]:
    """The text of each file a judgement leaves for people, by file name."""
    record = msgspec.json.format(msgspec.json.encode(status(decision, target), order="sorted"), indent=1)
    return {
        "comment.md": comment(decision),
        "status.json": record.decode("utf-8") + "\n",
        "step_summary.md": step_summary(decision),
        "regression_summary.md": regression_summary(decision),
    }
