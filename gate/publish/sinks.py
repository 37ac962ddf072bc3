"""The sinks that need no API: the job's step summary and the annotations of a workflow run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

STEP_SUMMARY_LIMIT = 1_048_576
# GitHub shows ten annotations of a level for each step, and drops the rest without a word.
MOST_ANNOTATIONS = 10
TITLE_LIMIT = 120
MESSAGE_LIMIT = 1_000


class Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """One line on the run's page."""

    level: Literal["error", "warning", "notice"]
    title: str
    message: str


def workflow_command(annotation: Annotation) -> str:
    """The line that makes GitHub's runner show an annotation; no text can end it or start another command."""
    title = _data(annotation.title[:TITLE_LIMIT]).replace(":", "%3A").replace(",", "%2C")
    return f"::{annotation.level} title={title}::{_data(annotation.message[:MESSAGE_LIMIT])}"


def _data(text: str) -> str:
    shown = "".join(char if char.isprintable() or char in "\r\n" else "�" for char in text)
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def write_summary(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Appends to the job's step summary; False where no runner asks for one, or it would get too long for GitHub."""
    where = environ.get("GITHUB_STEP_SUMMARY")
    if not where:
        return False
    path, data = Path(where), text.encode("utf-8")
    there = path.stat().st_size if path.exists() else 0
    if there + len(data) + 1 > STEP_SUMMARY_LIMIT:
        return False
    with path.open("ab") as file:
        file.write(data if data.endswith(b"\n") else data + b"\n")
    return True
