"""Knows what the publisher reads from GitHub and writes to it, as plain values without a client."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import msgspec

State = Literal["success", "failure", "error", "pending"]
CONTEXT = "flydsl-gate"
BOT = "github-actions[bot]"
DESCRIPTION_LIMIT = 140
COMMENT_LIMIT = 65_536
SHA = re.compile(r"[0-9a-f]{40}")
_RUN_URL = re.compile(r"/actions/runs/([0-9]{1,19})(?:/attempts/([0-9]{1,9}))?/?")


class RunKey(NamedTuple):
    """A workflow run and its attempt: larger is newer, since GitHub counts run ids up for all repositories."""

    run: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.run}.{self.attempt}"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One workflow run as the API tells it; `head_repo` is None where the fork is gone."""

    key: RunKey
    event: str
    path: str
    title: str
    conclusion: str | None
    head_sha: str
    head_branch: str | None
    head_repo: int | None
    head_owner: str | None
    url: str
    pulls: tuple[int, ...] = ()

    @property
    def attempt_url(self) -> str:
        """The page of this attempt: the link of the status, and how a status tells its run."""
        return f"{self.url}/attempts/{self.key.attempt}"


class Pull(msgspec.Struct, frozen=True, kw_only=True):
    """One pull request: where its head is now."""

    number: int
    state: str
    head_sha: str
    head_branch: str
    head_repo: int | None
    base_sha: str


class ArtifactEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact in the listing of a run."""

    id: int
    name: str
    size_bytes: int
    expired: bool
    run: int | None


class Comment(msgspec.Struct, frozen=True, kw_only=True):
    """One comment of a conversation and who wrote it."""

    id: int
    login: str
    user_type: str
    body: str


class PostedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One status of a commit; of two the one with the larger id is in force."""

    id: int
    state: str
    context: str
    description: str
    target_url: str
    login: str

    @property
    def key(self) -> RunKey | None:
        """The run that posted it, None where the link names none."""
        return run_of(self.target_url)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a verdict goes: always a commit, and a pull request whose head is that commit if there is one."""

    sha: str
    pull: int | None
    run: Run
    why: str


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What one run has to say: its comment, its status, how bad it is, and whether it is news at all."""

    key: RunKey
    body: str
    rank: int
    state: State
    description: str
    target_url: str
    quiet: bool = False
    context: str = CONTEXT


RANKS: dict[str, int] = {"promote": 0, "tune": 1, "no_verdict": 2, "block": 3}
RANK_OF_STATE: dict[str, int] = {"success": 1, "pending": 1, "error": 2, "failure": 3}


def run_of(url: str) -> RunKey | None:
    """The run that a link to its page names."""
    found = _RUN_URL.search(url)
    return RunKey(int(found[1]), int(found[2] or 1)) if found and found.end() == len(url) else None
