"""Knows whose pull request and which commit a workflow run is about; it asks the API and never the artifact."""

from __future__ import annotations

import re

from gate.publish.hub import Hub
from gate.publish.patience import Gone
from gate.publish.values import Pull, Run, Target

# Written by `run-name` of the workflow on the default branch, from inputs that only a maintainer gives.
_TITLE = re.compile(r"gate: pull request ([1-9][0-9]{0,9}) at ([0-9a-f]{40})")
_QUEUE = re.compile(r"gh-readonly-queue/.+/pr-[0-9]+-([0-9a-f]{40})")
EVENTS = frozenset({"pull_request", "merge_group", "push", "workflow_dispatch"})


class Stranger(Exception):
    """The run is none that this gate may speak about."""


def check(run: Run, *, workflow: str, default_branch: str) -> None:
    """Raises Stranger for a run of another workflow file or event, or a manual one from another branch."""
    if run.path != workflow:
        raise Stranger(f"run {run.key} is of {run.path}, not of {workflow}")
    if run.event not in EVENTS:
        raise Stranger(f"run {run.key} was started by {run.event}")
    if run.event == "workflow_dispatch" and run.head_branch != default_branch:
        raise Stranger(f"run {run.key} was started by hand from {run.head_branch}, not from {default_branch}")


def resolve(run: Run, hub: Hub) -> Target:
    """The commit, and the open pull request whose head it is now, if there is exactly one."""
    if run.event == "workflow_dispatch":
        return _by_title(run, hub)
    if run.event != "pull_request":
        return Target(sha=run.head_sha, pull=None, run=run, why=f"a run of {run.event} has no pull request")
    if run.head_repo is None or run.head_owner is None or run.head_branch is None:
        return Target(sha=run.head_sha, pull=None, run=run, why="the head repository is gone")
    # `pull_requests` of the run is empty for a fork, so the pull request is looked up by its head.
    found = [pull for pull in hub.pulls(run.head_owner, run.head_branch) if _same_head(pull, run)]
    at_head = [pull for pull in found if pull.head_sha == run.head_sha]
    if len(at_head) > 1:
        at_head = [pull for pull in at_head if pull.number in run.pulls]
    if len(at_head) == 1:
        return Target(sha=run.head_sha, pull=at_head[0].number, run=run, why="the head of an open pull request")
    why = "the head has moved on" if found and not at_head else "no single open pull request has this head"
    return Target(sha=run.head_sha, pull=None, run=run, why=why)


def _same_head(pull: Pull, run: Run) -> bool:
    return pull.state == "open" and pull.head_repo == run.head_repo and pull.head_branch == run.head_branch


def _by_title(run: Run, hub: Hub) -> Target:
    found = _TITLE.fullmatch(run.title)
    if found is None:
        return Target(sha=run.head_sha, pull=None, run=run, why="a manual run without a pull request")
    return _checked(int(found[1]), found[2], run, hub)


def _checked(number: int, sha: str, run: Run, hub: Hub) -> Target:
    try:
        pull = hub.pull(number)
    except Gone:
        raise Stranger(f"run {run.key} names pull request {number}, which does not exist") from None
    if pull.head_sha != sha:
        return Target(sha=sha, pull=None, run=run, why="the head has moved on")
    open_now = pull.state == "open"
    why = "the head of an open pull request" if open_now else "the pull request is closed"
    return Target(sha=sha, pull=number if open_now else None, run=run, why=why)


def base_of(run: Run, target: Target, hub: Hub) -> str | None:
    """The commit that the run's changes are held against, where the API tells it."""
    if target.pull is not None:
        return hub.pull(target.pull).base_sha
    queued = _QUEUE.fullmatch(run.head_branch or "") if run.event == "merge_group" else None
    return queued[1] if queued else None
