"""A hub that sends nothing: it prints each request, and answers later reads as if the writes had been done."""

from __future__ import annotations

import json

import click

from gate.publish.hub import GitHub, request_of
from gate.publish.plan import Step
from gate.publish.values import Comment, PostedStatus, Pull

_FIRST_ID = 1 << 62


class Dry:
    """Reads through `hub` if there is one; without it nothing is taken to be posted yet."""

    def __init__(self, hub: GitHub | None, *, repo: str, sha: str, bot: str) -> None:
        self.hub, self.repo, self.sha, self.bot = hub, repo, sha, bot
        self._comments: list[Comment] = []
        self._gone: set[int] = set()
        self._statuses: list[PostedStatus] = []

    def pull(self, number: int) -> Pull:
        """The pull request; without a hub one that is open at the commit named."""
        if self.hub is not None:
            return self.hub.pull(number)
        return Pull(number=number, state="open", head_sha=self.sha, head_branch="", head_repo=None, base_sha=self.sha)

    def pulls(self, owner: str, branch: str) -> list[Pull]:
        """As the hub says."""
        return self.hub.pulls(owner, branch) if self.hub is not None else []

    def comments(self, pull: int) -> list[Comment]:
        """What would be there after the writes so far."""
        there = self.hub.comments(pull) if self.hub is not None else []
        ours = {comment.id: comment for comment in self._comments}
        return [ours.pop(one.id, one) for one in there if one.id not in self._gone] + list(ours.values())

    def statuses(self, sha: str) -> list[PostedStatus]:
        """What would be there after the writes so far."""
        return [*reversed(self._statuses), *(self.hub.statuses(sha) if self.hub is not None else [])]

    def send(self, step: Step, *, pull: int | None, sha: str, context: str) -> None:
        """Prints the request and remembers what it would do."""
        method, path, body = request_of(step, pull=pull, sha=sha, context=context)
        text = "" if body is None else "\n" + json.dumps(body, indent=1, ensure_ascii=False)
        click.echo(f"{method} /repos/{self.repo}{path}{text}")
        number = _FIRST_ID + len(self._comments) + len(self._statuses)
        if step.verb == "delete_comment":
            self._gone.add(step.id)
        elif step.verb == "create_status":
            fields = {"state": step.state, "description": step.description, "target_url": step.target_url}
            self._statuses.append(PostedStatus(id=number, context=context, login=self.bot, **fields))
        else:
            made = Comment(id=step.id or number, login=self.bot, user_type="Bot", body=step.body)
            self._comments = [one for one in self._comments if one.id != made.id] + [made]
