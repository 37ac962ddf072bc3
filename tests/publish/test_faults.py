"""Cases from public trackers of tools that comment on pull requests: tokens, locks, and requests that fail."""

from __future__ import annotations

import pytest

from tests.publish.conftest import PULL, SHA, Gate
from tests.publish.fake import FULL, FakeGitHub, Fault, Token
from tests.publish.looks import blocked, once, one_body, passing, shows, state


def test_a_read_only_token_is_told_and_not_green(
    github: FakeGitHub, publish: Gate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    github.tokens["r"] = Token(scopes=dict.fromkeys(FULL, "read"))
    monkeypatch.setenv("GITHUB_TOKEN", "r")
    assert publish(passing()) == 2
    told = capsys.readouterr().err
    assert "Resource not accessible by integration" in told and "Traceback" not in told
    assert github.statuses == [] and github.ours(PULL) == []


def test_a_locked_conversation_still_gets_its_status(
    github: FakeGitHub, publish: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    github.locked.add(PULL)
    assert publish(blocked()) == 0
    assert github.ours(PULL) == []
    assert state(github) == "failure"
    assert "locked" in capsys.readouterr().err


def test_a_token_that_may_not_comment_still_sets_the_status_and_fails(
    github: FakeGitHub, publish: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    github.tokens["s"] = Token(scopes={**FULL, "pull-requests": "read"})
    monkeypatch.setenv("GITHUB_TOKEN", "s")
    assert publish(blocked()) == 2
    assert state(github) == "failure"


def test_a_502_after_the_comment_was_made_leaves_one_comment(github: FakeGitHub, publish: Gate) -> None:
    github.plan = once("POST", "/comments", Fault("502", "after"))
    assert publish(blocked()) == 0
    assert github.count("POST", "/comments") == 1
    assert len(github.ours(PULL)) == 1


@pytest.mark.parametrize("kind", ["500", "502", "503", "429", "403", "drop", "garbage"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "place", [("GET", "/pulls"), ("GET", "/comments"), ("POST", "/comments"), ("POST", "/statuses")]
)
def test_a_fault_before_or_after_leaves_one_comment_and_the_status(
    github: FakeGitHub, publish: Gate, kind: str, when: str, place: tuple[str, str]
) -> None:
    github.plan = once(*place, Fault(kind, when))
    assert publish(blocked()) == 0
    assert len(github.ours(PULL)) == 1
    assert state(github) == "failure"
    if when == "after" and kind not in ("429", "403"):
        # A limit says that nothing was done; after anything else the publisher looks before it sends again.
        assert github.count("POST", "/comments") == github.count("POST", "/statuses/") == 1


@pytest.mark.parametrize(("method", "part"), [("PATCH", "/comments/"), ("DELETE", "/comments/")])
@pytest.mark.parametrize("kind", ["502", "429", "drop"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_edit_or_a_deletion_that_fails_once_is_done(
    github: FakeGitHub, publish: Gate, method: str, part: str, kind: str, when: str
) -> None:
    assert publish(blocked() if method == "PATCH" else passing()) == 0
    github.add_run(12, SHA)
    github.plan = once(method, part, Fault(kind, when))
    assert publish(passing() if method == "PATCH" else blocked(), 12) == 0
    assert shows(one_body(github), "12.1")
