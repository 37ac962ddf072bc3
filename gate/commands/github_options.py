"""What the verbs that talk to GitHub ask for in common, and how its refusals read."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.publish.hub import GitHub, api_url
from gate.publish.patience import GaveUp, Patience, Refused
from gate.publish.target import Stranger, check
from gate.publish.values import Run

WORKFLOW = ".github/workflows/gate.yml"
ATTEMPTS = 6
_REPO = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})/[A-Za-z0-9._-]{1,100}")


def run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name a workflow run."""
    options = [
        click.option("--repo", metavar="OWNER/NAME", help="The repository. Default: GITHUB_REPOSITORY."),
        click.option("--run", "run_id", type=click.IntRange(min=1), help="The workflow run that measured."),
        click.option("--attempt", type=click.IntRange(min=1), help="Its attempt. Default: the latest."),
        click.option("--workflow", default=WORKFLOW, show_default=True, help="The file that a run must come from."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def connect(repo: str | None) -> GitHub:
    """The door to the repository, with the token of GITHUB_TOKEN. Raises WrongUsage without a repository."""
    name = repo or os.environ.get("GITHUB_REPOSITORY", "")
    if not _REPO.fullmatch(name):
        raise WrongUsage(Problem(what=f"no repository: {name[:80]!r}", file="", fix="name it with --repo OWNER/NAME"))
    token = os.environ.get("GITHUB_TOKEN") or None
    pause_s = float(os.environ.get("GATE_RETRY_PAUSE_S", "1"))
    patience = Patience(attempts=ATTEMPTS, pause_s=pause_s, sleep=time.sleep if pause_s > 0 else _at_once)
    try:
        return GitHub(name, token=token, base_url=api_url(), patience=patience)
    except ImportError:
        fix = "pip install 'flydsl-gate[publish]'"
        raise UnusableInput(Problem(what="PyGithub is not installed", file="", fix=fix)) from None


def _at_once(seconds: float) -> None:
    """GATE_RETRY_PAUSE_S=0: a rehearsal that waits for nothing."""


def our_run(hub: GitHub, run_id: int, attempt: int | None, *, workflow: str) -> Run:
    """The run as the API tells it. Raises UnusableInput for one of another workflow, event or branch."""
    with told():
        run = hub.run(run_id, attempt)
        try:
            check(run, workflow=workflow, default_branch=hub.default_branch())
        except Stranger as error:
            raise UnusableInput(Problem(what=str(error), file="", fix="see --workflow")) from None
        return run


@contextmanager
def told() -> Iterator[None]:
    """Turns what GitHub refuses, or does not do in time, into one line."""
    try:
        yield
    except Stranger as error:
        raise UnusableInput(Problem(what=str(error), file="")) from None
    except Refused as error:
        fix = "see the permissions in docs/operations.md" if error.status in (401, 403, 404) else ""
        raise UnusableInput(Problem(what=f"GitHub refuses: {error}", file="", fix=fix)) from None
    except GaveUp as error:
        what = f"GitHub does not answer: {error}"
        raise UnusableInput(Problem(what=what, file="", fix="run the job again")) from None
