"""What a commit status carries."""

from __future__ import annotations

from typing import Literal

import msgspec


class CommitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """status.json: GitHub takes at most 140 characters of description."""

    state: Literal["success", "failure", "error", "pending"]
    description: str
    context: str = "flydsl-gate"
    target: str | None = None
