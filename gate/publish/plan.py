"""Decides what must be sent so that GitHub shows the newest run once: pure functions over what is posted already.

Each plan looks at what is there now, never at what was sent before. Several reporters that plan, write and plan
again until a plan is empty end with the newest run shown, whatever the order of their writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from gate.publish.marker import Shown
from gate.publish.values import Message, PostedStatus, RunKey

Verb = Literal["create_comment", "edit_comment", "delete_comment", "create_status"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One write: `id` is the comment's, `body` its text; a status carries a state and a description instead."""

    verb: Verb
    id: int = 0
    body: str = ""
    state: str = ""
    description: str = ""
    target_url: str = ""


def comment_steps(mine: Sequence[Shown], wanted: Message, *, first: bool) -> list[Step]:
    """The writes that leave one comment, with the newest run.

    `mine` are our comments, the oldest first; `first` is the reporter's first look: only then does it replace the
    text of its own run, so that two reporters of one run do not overwrite each other for ever. Nothing is edited
    when nothing changed. A verdict that is worse than the shown one gets a fresh comment, since edits notify nobody.
    """
    if not mine:
        return [] if wanted.quiet else [Step(verb="create_comment", body=wanted.body)]
    top = max(mine, key=lambda shown: (shown.key, -shown.id))
    if top.key > wanted.key:
        return _delete(mine, keep=top.id)
    if top.key == wanted.key:
        stale = top.comment.body != wanted.body and (first or top.brief)
        edit = [Step(verb="edit_comment", id=top.id, body=wanted.body)] if stale else []
        return [*edit, *_delete(mine, keep=top.id)]
    if wanted.rank > top.rank:
        return [Step(verb="create_comment", body=wanted.body), *_delete(mine, keep=0)]
    keep = mine[0].id
    return [Step(verb="edit_comment", id=keep, body=wanted.body), *_delete(mine, keep=keep)]


def _delete(mine: Sequence[Shown], *, keep: int) -> list[Step]:
    return [Step(verb="delete_comment", id=shown.id) for shown in mine if shown.id != keep]


def status_steps(posted: Sequence[PostedStatus], wanted: Message, *, first: bool) -> list[Step]:
    """The write, if any, that leaves the newest run's status in force; a final one is newer than a pending one."""
    known = [(order(one), one) for one in posted]
    mine = (wanted.key, wanted.state != "pending")
    top = max(known, key=lambda pair: (pair[0], pair[1].id), default=None)
    if top is None or top[0] < mine:
        return [_status(wanted.state, wanted.description, wanted.target_url)]
    said = (top[1].state, top[1].description)
    if top[0] == mine and first and said != (wanted.state, wanted.description):
        return [_status(wanted.state, wanted.description, wanted.target_url)]
    in_force = max(known, key=lambda pair: pair[1].id)
    if in_force[0] < top[0]:
        return [_status(top[1].state, top[1].description, top[1].target_url)]
    return []


def order(status: PostedStatus) -> tuple[RunKey, bool]:
    """The place of a status in time: its run, and within a run pending before final."""
    return status.key or RunKey(0, 0), status.state != "pending"


def _status(state: str, description: str, target_url: str) -> Step:
    return Step(verb="create_status", state=state, description=description, target_url=target_url)


def newer_final(posted: Sequence[PostedStatus], *, than: RunKey) -> PostedStatus | None:
    """The final status of the newest run after `than`: what a comment must not contradict."""
    found = [one for one in posted if one.key is not None and one.key > than and one.state != "pending"]
    return max(found, key=lambda one: (order(one), one.id), default=None)
