"""Cases from public trackers of tools that comment on pull requests: whose commit a run is of, and where it is told."""

from __future__ import annotations

import pytest

from tests.publish.conftest import OTHER, PULL, SHA, Gate
from tests.publish.fake import FORK_ID, FakeGitHub, repository
from tests.publish.looks import blocked, one_body, passing, shows, state


def test_a_fork_whose_run_names_no_pull_request_is_found_by_its_head(github: FakeGitHub, publish: Gate) -> None:
    github.add_pull(8, OTHER, branch="topic", repo=FORK_ID, owner="ada")
    github.add_run(12, OTHER, head_repository=repository(FORK_ID, "ada/FlyDSL"))
    assert publish(blocked(), 12) == 0
    assert github.ours(PULL) == []
    assert len(github.ours(8)) == 1
    assert state(github, OTHER) == "failure"


def test_two_forks_of_one_owner_are_told_apart_by_their_id(github: FakeGitHub, publish: Gate) -> None:
    github.add_pull(8, OTHER, branch="topic", repo=FORK_ID, owner="ada")
    github.add_pull(9, OTHER, branch="topic", repo=FORK_ID + 1, owner="ada")
    github.add_run(12, OTHER, head_repository=repository(FORK_ID + 1, "ada/FlyDSL"))
    assert publish(blocked(), 12) == 0
    assert github.ours(8) == []
    assert len(github.ours(9)) == 1


def test_the_fork_is_gone(github: FakeGitHub, publish: Gate) -> None:
    github.add_run(12, OTHER, head_repository=None)
    assert publish(blocked(), 12) == 0
    assert github.count("POST", "/comments") == 0
    assert state(github, OTHER) == "failure"
    github.violations.clear()  # GitHub sends null here, against its own description.


def test_the_status_goes_to_the_runs_head_and_not_to_the_jobs_own_sha(
    github: FakeGitHub, publish: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SHA", OTHER)
    assert publish(blocked()) == 0
    assert state(github) == "failure"
    assert github.status(OTHER) is None


def test_a_merge_queue_gets_its_status_and_no_comment(github: FakeGitHub, publish: Gate) -> None:
    branch = f"gh-readonly-queue/main/pr-7-{'b' * 40}"
    github.add_run(12, OTHER, event="merge_group", head_branch=branch)
    assert publish(blocked(), 12) == 0
    assert github.count("POST", "/comments") == 0
    assert state(github, OTHER) == "failure"


def test_a_force_push_while_running_sets_the_status_of_the_old_head_only(
    github: FakeGitHub, publish: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    github.pulls[PULL]["head"]["sha"] = OTHER
    assert publish(blocked()) == 0
    assert "no comment (the head has moved on)" in capsys.readouterr().err
    assert github.count("POST", "/comments") == 0
    assert state(github) == "failure"
    assert github.status(OTHER) is None


def test_a_force_push_between_look_and_write_is_seen(github: FakeGitHub, publish: Gate) -> None:
    github.add_run(12, OTHER)

    def push(method: str, path: str) -> None:
        if method == "GET" and path.endswith(f"/pulls/{PULL}"):
            github.pulls[PULL]["head"]["sha"] = OTHER

    assert publish(passing(), 11) == 0
    github.add_run(11, SHA, attempt=2)
    github.after = push
    assert publish(blocked(), 11) == 0
    github.after = lambda method, path: None
    assert publish(passing(), 12) == 0
    assert shows(one_body(github), "12.1")
    assert state(github, OTHER) == "success"


def test_a_head_that_moves_after_the_pull_request_was_found_gets_no_comment(github: FakeGitHub, publish: Gate) -> None:
    def push(method: str, path: str) -> None:
        if method == "GET" and path.endswith("/pulls"):
            github.pulls[PULL]["head"]["sha"] = OTHER

    github.after = push
    assert publish(blocked()) == 0
    assert github.count("POST", "/comments") == 0
    assert state(github) == "failure"


@pytest.mark.parametrize("ending", ["closed", "merged"])
def test_a_pull_request_closed_meanwhile_gets_no_comment(github: FakeGitHub, publish: Gate, ending: str) -> None:
    def close(method: str, path: str) -> None:
        if method == "GET" and path.endswith("/pulls"):
            github.pulls[PULL] |= {"state": "closed", "merged": ending == "merged"}

    github.after = close
    assert publish(blocked()) == 0
    assert github.count("POST", "/comments") == 0
    assert state(github) == "failure"


@pytest.mark.parametrize(
    "fields",
    [
        {"path": ".github/workflows/other.yml"},
        {"event": "schedule"},
        {"event": "pull_request_target"},
        {"event": "workflow_dispatch", "head_branch": "topic"},
    ],
)
def test_a_run_that_is_none_of_ours_is_refused(github: FakeGitHub, publish: Gate, fields: dict[str, str]) -> None:
    github.add_run(12, SHA, **fields)
    assert publish(passing(), 12) == 2
    assert github.statuses == [] and github.ours(PULL) == []


def test_a_manual_run_is_bound_to_a_pull_request_and_its_commit(
    github: FakeGitHub, publish: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    github.add_pull(8, OTHER, repo=FORK_ID, owner="ada")
    fields = {"event": "workflow_dispatch", "head_branch": "main"}
    github.add_run(12, "d" * 40, display_title=f"gate: pull request 8 at {OTHER}", **fields)
    assert publish(blocked(), 12) == 0
    assert len(github.ours(8)) == 1
    assert state(github, OTHER) == "failure"
    github.pulls[8]["head"]["sha"] = "e" * 40
    github.add_run(13, "d" * 40, display_title=f"gate: pull request 8 at {OTHER}", **fields)
    assert publish(passing(), 13) == 0
    assert shows(github.ours(8)[0], "12.1"), "the commit that was approved is no longer the head"
    assert "no comment (the head has moved on)" in capsys.readouterr().err
    github.add_run(14, "d" * 40, display_title=f"gate: pull request 404 at {OTHER}", **fields)
    assert publish(passing(), 14) == 2
