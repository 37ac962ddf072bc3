"""Two reporters at once, with faults: comment and status end with the newest run, whatever the order of requests."""

from __future__ import annotations

import pytest

from gate.commands import publish_texts
from gate.publish.patience import GaveUp, Patience, persist
from gate.publish.plan import Step, comment_steps, status_steps
from gate.publish.values import Message, PostedStatus, RunKey
from tests.bench.publish_interleave import main as interleave
from tests.publish.conftest import PULL, SHA, Gate
from tests.publish.fake import BOT, FakeGitHub
from tests.publish.looks import blocked, one_body, passing, shows, state


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_interleavings_and_faults_end_with_the_newest_run(seed: int) -> None:
    found = interleave(80, seed)
    wrong = ("duplicated comments", "wrong final status", "older run shown last", "no comment where one is due")
    assert {name: found[name] for name in (*wrong, "not GitHub's form")} == dict.fromkeys(
        (*wrong, "not GitHub's form"), 0
    )
    assert found["faults"] > 20


def test_an_edit_that_lands_after_the_newer_report_gives_way(github: FakeGitHub, publish: Gate) -> None:
    """The newer reporter has finished when the older one, which looked before, overwrites its comment."""
    assert publish(passing(), 11) == 0
    github.add_run(12, SHA)
    github.add_run(13, SHA)
    (comment,) = github.on(PULL)

    def newer_report(method: str, path: str) -> None:
        if method == "GET" and path.endswith("/comments"):
            github.after = lambda method, path: None
            comment["body"] = f"<!-- flydsl-gate:main v1 run=13.1 head={SHA} verdict=promote -->\nnewest"
            url = f"{github.base}/ROCm/FlyDSL/actions/runs/13/attempts/1"
            body = {"state": "success", "context": "flydsl-gate", "description": "all well", "target_url": url}
            github.post_status(SHA, query={}, body=body, token=github.tokens["t"])

    github.after = newer_report
    assert publish(passing(), 12) == 0
    body = one_body(github)
    assert shows(body, "13.1"), "its own text was overwritten, so the status tells"
    assert "all well" in body and "/actions/runs/13/attempts/1" in body
    assert state(github) == "success"
    assert publish(blocked(), 13) == 0
    assert shows(one_body(github), "13.1") and "form=brief" not in one_body(github)


def test_an_old_status_that_lands_last_is_followed_by_the_newest() -> None:
    posted = [status(3, "11", "failure"), status(2, "12", "success")]
    (step,) = status_steps(posted, message("11", "failure"), first=False)
    assert (step.verb, step.state, step.target_url[-2:]) == ("create_status", "success", "12")


def status(number: int, run: str, state: str) -> PostedStatus:
    url = f"https://x/actions/runs/{run}"
    return PostedStatus(id=number, state=state, context="flydsl-gate", description=state, target_url=url, login=BOT)


def message(run: str, state: str) -> Message:
    url = f"https://x/actions/runs/{run}"
    return Message(key=RunKey(int(run), 1), body="b", rank=0, state=state, description=state, target_url=url)  # type: ignore[arg-type]


def test_a_status_that_is_there_is_not_posted_again() -> None:
    assert status_steps([status(3, "12", "success")], message("12", "success"), first=True) == []
    assert status_steps([status(3, "12", "success")], message("11", "failure"), first=True) == []
    assert len(status_steps([status(3, "11", "success")], message("12", "failure"), first=True)) == 1


def test_two_reporters_of_one_run_do_not_overwrite_each_other_for_ever() -> None:
    from gate.publish.marker import ours
    from gate.publish.values import Comment

    text = "<!-- flydsl-gate:main v1 run=12.1 head=x verdict=block -->\nhis"
    mine = ours([Comment(id=1, login=BOT, user_type="Bot", body=text)], name="main", bot=BOT)
    assert comment_steps(mine, message("12", "failure"), first=True) == [Step(verb="edit_comment", id=1, body="b")]
    assert comment_steps(mine, message("12", "failure"), first=False) == []


def test_patience_ends() -> None:
    from gate.publish.patience import Passing

    waits: list[float] = []

    def fails() -> None:
        raise Passing("busy")

    with pytest.raises(GaveUp, match="3 attempts"):
        persist(fails, Patience(attempts=3, sleep=waits.append))
    assert waits == [1.0, 2.0, 4.0]

    def asks() -> None:
        raise Passing("limit", wait_s=3600)

    with pytest.raises(GaveUp, match="3600 s"):
        persist(asks, Patience(sleep=waits.append))


def test_a_secondary_limit_is_waited_for_as_long_as_github_asks() -> None:
    from gate.publish.translate import meaning

    named = meaning(403, {"message": "You have exceeded a secondary rate limit."}, {"retry-after": "7"}, write=True)
    unnamed = meaning(403, {"message": "You have exceeded a secondary rate limit."}, {}, write=True)
    assert (getattr(named, "wait_s", None), getattr(unnamed, "wait_s", None)) == (7.0, 60.0)


def test_the_short_form_escapes_what_the_status_says() -> None:
    posted = PostedStatus(
        id=1, state="failure", context="flydsl-gate", description="@all <b> #12", target_url="", login=BOT
    )
    body = publish_texts.briefly("main", "flydsl-gate")(posted, SHA).body
    assert "@all" not in body and "<b>" not in body and "#12" not in body
