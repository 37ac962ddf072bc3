"""Cases from public trackers of tools that comment on pull requests: what a verdict makes of the one before it."""

from __future__ import annotations

import msgspec
import pytest

from tests.publish.conftest import PULL, SHA, Gate
from tests.publish.fake import REPO, FakeGitHub
from tests.publish.looks import blocked, one_body, passing, shows, state, unchanged
from tests.render.examples import NO_VERDICT, decision, row


def test_a_first_verdict_is_one_comment_and_one_status(github: FakeGitHub, publish: Gate) -> None:
    assert publish(blocked()) == 0
    assert one_body(github).startswith(f"<!-- flydsl-gate:main v1 run=11.1 head={SHA} verdict=block -->\n")
    assert "/actions/runs/11/attempts/1)" in one_body(github)
    found = github.status(SHA)
    assert found is not None
    assert (found["state"], found["target_url"]) == ("failure", f"{github.base}/{REPO}/actions/runs/11/attempts/1")
    assert "1 of 1 row slower" in found["description"]
    writes = [(method, path) for method, path, _ in github.log if method != "GET"]
    assert writes[-1] == ("POST", f"/repos/{REPO}/statuses/{SHA}"), "the status is the last thing that is sent"


def test_all_rows_within_noise_make_no_new_comment(github: FakeGitHub, publish: Gate) -> None:
    assert publish(unchanged()) == 0
    assert github.count("POST", "/comments") == 0
    assert state(github) == "success"


def test_all_rows_within_noise_replace_an_older_verdict_in_place(github: FakeGitHub, publish: Gate) -> None:
    assert publish(blocked()) == 0
    (first,) = [one["id"] for one in github.on(PULL)]
    github.add_run(12, SHA)
    assert publish(unchanged(), 12) == 0
    (left,) = github.on(PULL)
    assert left["id"] == first
    assert shows(left["body"], "12.1")


@pytest.mark.parametrize(
    "verdict", ["newly_failed", "missing", "not_run", "not_comparable", "inconclusive", "new", "fixed"]
)
def test_a_row_that_is_not_unchanged_is_never_no_change(github: FakeGitHub, publish: Gate, verdict: str) -> None:
    odd = msgspec.structs.replace(row(1), verdict=verdict, ratio=None, ci=None)
    assert publish(decision([row(0), odd])) == 0
    assert len(github.ours(PULL)) == 1


def test_counts_that_hide_a_row_do_not_make_it_unchanged(github: FakeGitHub, publish: Gate) -> None:
    odd = msgspec.structs.replace(row(1), verdict="missing", ratio=None, ci=None)
    assert publish(decision([row(0), odd], counts={"total": 2, "unchanged": 2})) == 0
    assert len(github.ours(PULL)) == 1


@pytest.mark.parametrize("change", [{"problems": ("head line 3: refused",)}, {"counts": {"total": 9, "unchanged": 4}}])
def test_what_is_left_out_is_never_no_change(github: FakeGitHub, publish: Gate, change: dict[str, object]) -> None:
    assert publish(msgspec.structs.replace(unchanged(), **change)) == 0
    assert len(github.ours(PULL)) == 1


@pytest.mark.parametrize(
    "conclusion", ["failure", "timed_out", "cancelled", "skipped", "startup_failure", "neutral", None]
)
@pytest.mark.parametrize("verdict", ["pass", "block"])
def test_a_run_that_did_not_succeed_is_an_error(
    github: FakeGitHub, publish: Gate, conclusion: str | None, verdict: str
) -> None:
    github.add_run(12, SHA, conclusion=conclusion)
    assert publish(passing() if verdict == "pass" else blocked(), 12) == 0
    assert state(github) == "error"
    assert "verdict=no_verdict" in one_body(github)
    assert f"ended: {conclusion or 'not yet'}" in one_body(github).replace("&#8288;", "").replace("&#95;", "_")


def test_an_error_after_a_promote_replaces_it(github: FakeGitHub, publish: Gate) -> None:
    assert publish(passing()) == 0
    assert "verdict=promote" in one_body(github)
    github.add_run(12, SHA, conclusion="failure")
    assert publish(decision([], **NO_VERDICT), 12) == 0
    assert "verdict=no_verdict" in one_body(github)
    assert state(github) == "error"


def test_no_decision_at_all_replaces_a_promote_too(github: FakeGitHub, publish: Gate, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert publish(passing()) == 0
    github.add_run(12, SHA)
    (tmp_path / "empty").mkdir()
    assert publish(None, 12, "--from", str(tmp_path / "empty")) == 0
    assert "verdict=no_verdict" in one_body(github)
    assert state(github) == "error"
    github.add_run(13, SHA)
    (tmp_path / "empty" / "decision.json").write_text('{"gate": "pass"')
    assert publish(None, 13, "--from", str(tmp_path / "empty")) == 0
    assert shows(one_body(github), "13.1") and state(github) == "error"


def test_a_worse_verdict_is_a_fresh_comment_and_the_old_one_goes(github: FakeGitHub, publish: Gate) -> None:
    assert publish(passing()) == 0
    (first,) = [one["id"] for one in github.on(PULL)]
    github.add_run(12, SHA)
    assert publish(blocked(), 12) == 0
    (left,) = github.on(PULL)
    assert left["id"] != first, "an edit would notify nobody"
    posted = [method for method, path, _ in github.log if "/comments" in path and method in ("POST", "DELETE")]
    assert posted == ["POST", "POST", "DELETE"], "the new comment stands before the old one goes"


def test_a_better_verdict_is_an_edit(github: FakeGitHub, publish: Gate) -> None:
    assert publish(blocked()) == 0
    (first,) = [one["id"] for one in github.on(PULL)]
    github.add_run(12, SHA)
    assert publish(passing(), 12) == 0
    assert [one["id"] for one in github.on(PULL)] == [first]
