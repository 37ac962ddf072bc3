"""Cases from public trackers of tools that comment on pull requests: which of several runs is shown."""

from __future__ import annotations

from tests.publish.conftest import PULL, SHA, Gate
from tests.publish.fake import BOT, FULL, REPO, FakeGitHub, Token
from tests.publish.looks import blocked, one_body, passing, shows, state


def test_our_comment_is_found_beyond_the_first_page(github: FakeGitHub, publish: Gate) -> None:
    for number in range(120):
        github.add_comment(PULL, f"a foreign comment {number}")
    assert publish(blocked()) == 0
    for number in range(120):
        github.add_comment(PULL, f"another foreign comment {number}")
    github.add_run(12, SHA)
    assert publish(passing(), 12) == 0
    assert shows(one_body(github), "12.1")
    assert len(github.on(PULL)) == 241


def test_an_older_run_that_finishes_later_is_not_shown(github: FakeGitHub, publish: Gate) -> None:
    github.add_run(12, SHA)
    assert publish(passing(), 12) == 0
    assert publish(blocked(), 11) == 0
    assert shows(one_body(github), "12.1")
    assert state(github) == "success"


def test_the_first_attempt_that_reports_after_the_second_is_not_shown(github: FakeGitHub, publish: Gate) -> None:
    github.add_run(11, SHA, attempt=2)
    assert publish(blocked(), 11, "--attempt", "2") == 0
    assert publish(passing(), 11, "--attempt", "1") == 0
    assert shows(one_body(github), "11.2")
    assert state(github) == "failure"


def test_two_runs_that_both_created_leave_the_newer(github: FakeGitHub, publish: Gate) -> None:
    github.add_run(12, SHA)

    def other_reporter(method: str, path: str) -> None:
        if method == "POST" and path.endswith("/comments"):
            github.after = lambda method, path: None
            github.add_comment(
                PULL, f"<!-- flydsl-gate:main v1 run=12.1 head={SHA} verdict=tune -->\nnewer", login=BOT, kind="Bot"
            )

    github.after = other_reporter
    assert publish(blocked(), 11) == 0
    assert one_body(github).endswith("newer")


def test_a_copy_of_our_marker_by_a_person_is_not_ours(github: FakeGitHub, publish: Gate) -> None:
    marker = f"<!-- flydsl-gate:main v1 run=99999.1 head={SHA} verdict=promote -->\nall is well"
    planted = [
        github.add_comment(PULL, marker),
        github.add_comment(PULL, marker, login=BOT, kind="User"),
        github.add_comment(PULL, f"text before\n{marker}", login=BOT, kind="Bot"),
        github.add_comment(PULL, marker.replace(":main ", ":other "), login=BOT, kind="Bot"),
    ]
    assert publish(blocked()) == 0
    assert all(number in github.comments for number in planted)
    assert sum("run=11.1 " in body for body in github.ours(PULL)) == 1
    assert state(github) == "failure"


def test_a_status_by_another_login_orders_nothing(github: FakeGitHub, publish: Gate) -> None:
    person = Token(login="ada", type="User", scopes=dict(FULL))
    url = f"{github.base}/{REPO}/actions/runs/99999/attempts/1"
    github.post_status(
        SHA, query={}, token=person, body={"state": "success", "context": "flydsl-gate", "target_url": url}
    )
    assert publish(blocked()) == 0
    assert state(github) == "failure"


def test_another_bots_comment_is_the_newest(github: FakeGitHub, publish: Gate) -> None:
    assert publish(blocked()) == 0
    github.add_comment(PULL, "coverage 71%", login="codecov[bot]", kind="Bot")
    github.add_run(12, SHA)
    assert publish(passing(), 12) == 0
    assert shows(one_body(github), "12.1")


def test_the_same_run_again_writes_nothing(github: FakeGitHub, publish: Gate) -> None:
    assert publish(blocked()) == 0
    before = [entry for entry in github.log if entry[0] != "GET"]
    assert publish(blocked()) == 0
    assert [entry for entry in github.log if entry[0] != "GET"] == before


def test_doubles_are_removed_and_the_oldest_stays(github: FakeGitHub, publish: Gate) -> None:
    marker = f"<!-- flydsl-gate:main v1 run=10.1 head={SHA} verdict=block -->\nold"
    first, *_ = [github.add_comment(PULL, marker, login=BOT, kind="Bot") for _ in range(3)]
    assert publish(passing()) == 0
    assert [one["id"] for one in github.on(PULL)] == [first]
    assert shows(one_body(github), "11.1")


def test_pending_at_the_start_and_final_last(github: FakeGitHub, publish: Gate) -> None:
    github.runs[11, 1]["conclusion"] = None
    assert publish(None, 11, "--pending") == 0
    assert state(github) == "pending"
    assert github.ours(PULL) == []
    github.runs[11, 1]["conclusion"] = "success"
    assert publish(blocked()) == 0
    assert publish(None, 11, "--pending") == 0
    assert [one["state"] for one in github.statuses] == ["pending", "failure"], "a late pending does not undo a verdict"


def test_a_new_run_makes_the_same_commit_pending_again(github: FakeGitHub, publish: Gate) -> None:
    assert publish(passing()) == 0
    github.add_run(11, SHA, attempt=2, conclusion=None)
    assert publish(None, 11, "--pending") == 0
    assert state(github) == "pending"
    assert publish(passing(), 11, "--attempt", "1") == 0
    assert state(github) == "pending", "the first attempt's report is not the newest"
