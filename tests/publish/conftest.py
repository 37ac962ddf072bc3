"""Fixtures of the publisher's tests: a fake GitHub, and the command line against it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gate import store
from gate.cli import run
from gate.commands import judged
from gate.model.decision import Decision

if TYPE_CHECKING:
    from tests.publish.fake import FakeGitHub

NEEDED = {"github": "PyGithub, of the extra publish", "githubkit": "GitHub's own schema, of the extra dev"}
MISSING = [f"{name} ({why})" for name, why in NEEDED.items() if importlib.util.find_spec(name) is None]
# Nothing here imports without them; test_needs.py says so as a skip.
collect_ignore = (
    []
    if not MISSING
    else [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_needs.py"]
)

SHA = "a" * 40
OTHER = "c" * 40
PULL = 7
Gate = Callable[..., int]


def environment(fake: FakeGitHub, monkeypatch: pytest.MonkeyPatch, *, token: str = "t") -> None:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    from tests.publish.fake import REPO

    monkeypatch.setenv("GITHUB_API_URL", fake.base)
    monkeypatch.setenv("GITHUB_REPOSITORY", REPO)
    monkeypatch.setenv("GITHUB_TOKEN", token)
    monkeypatch.setenv("GATE_RETRY_PAUSE_S", "0")


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGitHub]:
    """A repository with pull request 7 at SHA and run 11 of it; no test may leave a request GitHub does not know."""
    from tests.publish.fake import running

    with running() as fake:
        environment(fake, monkeypatch)
        fake.add_pull(PULL, SHA)
        fake.add_run(11, SHA)
        yield fake
        assert fake.violations == []


@pytest.fixture
def publish(github: FakeGitHub, tmp_path: Path) -> Gate:
    """`gate publish` of a decision for a run; returns the exit code."""

    def call(decision: Decision | None, run_id: int = 11, *more: str) -> int:
        argv = ["publish", "--run", str(run_id), *more]
        if decision is not None:
            folder = tmp_path / f"decision-{run_id}"
            store.write_json(folder / judged.DECISION_FILE, decision)
            argv += ["--from", str(folder)]
        return run(argv)

    return call
