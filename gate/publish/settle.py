"""Brings comment and status to the newest run: look, plan, write, and look again until nothing is left to write.

Every write is followed by a look at both. So if an older run's reporter writes late, either its own next look sees
the newer run's status and gives way, or the newer run's reporter, which posts its status last, sees the old comment.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gate.publish import marker
from gate.publish.hub import Hub, ours
from gate.publish.patience import GaveUp, Gone, Patience, Refused, Unknown
from gate.publish.plan import Step, comment_steps, newer_final, status_steps
from gate.publish.values import BOT, Message, PostedStatus, Target

MOST_ROUNDS = 16


class Report(msgspec.Struct, kw_only=True):
    """What became of it: the writes in order, and what GitHub would not take (in words, with its status)."""

    sent: list[Step] = []
    refused: list[str] = []
    denied: bool = False


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """Where and as whom the publisher writes: `name` tells several sticky comments of one pull request apart.

    `brief` makes the short comment of a newer run's status, for when an older run has overwritten its own comment.
    """

    hub: Hub
    target: Target
    name: str
    brief: Callable[[PostedStatus, str], Message]
    bot: str = BOT
    patience: Patience = Patience()


def settle(desk: Desk, message: Message) -> Report:
    """Writes until comment and status show the newest run. Raises GaveUp; what is refused is in the report."""
    report = Report()
    closed: set[str] = set()
    for turn in range(MOST_ROUNDS):
        wrote = False
        for place, look in (("comment", _comment_round), ("status", _status_round)):
            if place in closed:
                continue
            try:
                wrote |= look(desk, message, report, first=turn == 0)
            except Refused as error:
                closed.add(place)
                _note(report, place, error)
            except Unknown:
                wrote = True
                desk.patience.pause(min(turn, 4))
        if not wrote:
            return report
    raise GaveUp(f"comment and status did not settle in {MOST_ROUNDS} rounds")


def _note(report: Report, place: str, error: Refused) -> None:
    locked = place == "comment" and error.status == 403 and "locked" in error.message.lower()
    report.refused.append(f"{place}: {error}")
    report.denied |= not locked


def _comment_round(desk: Desk, message: Message, report: Report, *, first: bool) -> bool:
    if desk.target.pull is None:
        return False
    pull = desk.hub.pull(desk.target.pull)
    if pull.state != "open":
        return False
    mine = marker.ours(desk.hub.comments(pull.number), name=desk.name, bot=desk.bot)
    newer = newer_final(_posted(desk, message, pull.head_sha), than=message.key)
    if newer is not None:
        wanted = desk.brief(newer, pull.head_sha)
    elif pull.head_sha == desk.target.sha:
        wanted = message
    else:
        return False
    steps = comment_steps(mine, wanted, first=first and newer is None)
    return _send(desk, steps, report, pull=pull.number, context=message.context)


def _status_round(desk: Desk, message: Message, report: Report, *, first: bool) -> bool:
    steps = status_steps(_posted(desk, message, desk.target.sha), message, first=first)
    return _send(desk, steps, report, pull=None, context=message.context)


def _posted(desk: Desk, message: Message, sha: str) -> list[PostedStatus]:
    return ours(desk.hub.statuses(sha), context=message.context, bot=desk.bot)


def _send(desk: Desk, steps: list[Step], report: Report, *, pull: int | None, context: str) -> bool:
    for step in steps:
        try:
            desk.hub.send(step, pull=pull, sha=desk.target.sha, context=context)
        except Gone:
            if step.verb != "edit_comment":
                raise
            return True  # Another reporter deleted it first; the next look tells what is left.
        report.sent.append(step)
    return bool(steps)
