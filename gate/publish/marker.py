"""Knows the hidden first line that tells our comment, and which run a comment shows."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from gate.publish.values import RANKS, Comment, RunKey

_MARKER = re.compile(
    r"<!-- flydsl-gate:(?P<key>[A-Za-z0-9][\w.]*) v1(?P<facts>(?: [a-z]+=[\w.]+)*) -->(?:\r?\n|\Z)", re.ASCII
)
_RUN = re.compile(r"([0-9]{1,19})\.([0-9]{1,9})", re.ASCII)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A comment of ours: the run it shows, how bad its verdict is, and whether it is the short form of a repair."""

    comment: Comment
    key: RunKey
    rank: int
    brief: bool

    @property
    def id(self) -> int:
        """The comment's id; a smaller one is older."""
        return self.comment.id


def facts(*, key: RunKey, head: str, headline: str, brief: bool = False) -> dict[str, str]:
    """The words of the marker, in the order in which they are written."""
    found = {"run": str(key), "head": head, "verdict": headline}
    return found | {"form": "brief"} if brief else found


def read(comment: Comment, *, name: str, bot: str) -> Shown | None:
    """The comment as one of ours, None where anybody else wrote it, or it is of another `name`.

    The marker alone proves nothing: everybody can write it. It counts at the very start of a comment of the bot only.
    """
    if comment.login != bot or comment.user_type != "Bot":
        return None
    found = _MARKER.match(comment.body)
    if found is None or found["key"] != name:
        return None
    words = dict(pair.split("=", 1) for pair in found["facts"].split())
    run = _RUN.fullmatch(words.get("run", ""))
    key = RunKey(int(run[1]), int(run[2])) if run else RunKey(0, 0)
    rank = RANKS.get(words.get("verdict", ""), max(RANKS.values()))
    return Shown(comment=comment, key=key, rank=rank, brief=words.get("form") == "brief")


def ours(comments: Iterable[Comment], *, name: str, bot: str) -> list[Shown]:
    """Our comments, the oldest first."""
    found = (read(comment, name=name, bot=bot) for comment in comments)
    return sorted((one for one in found if one is not None), key=lambda one: one.id)
