"""Cases from public trackers of tools that comment on pull requests: each is one thing that went wrong somewhere."""

from __future__ import annotations

import msgspec
import pytest

from gate.model.decision import Decision
from tests.publish.conftest import OTHER, PULL, SHA, Gate
from tests.publish.fake import BOT, FORK_ID, FULL, REPO, FakeGitHub, Fault, Token, repository
from tests.render.examples import BLOCKED, NO_VERDICT, decision, row, slower


def passing() -> Decision:
    return decision([msgspec.structs.replace(row(i), verdict="improved", ratio=0.8) for i in range(4)])


def unchanged() -> Decision:
    return decision([row(i) for i in range(4)])


def blocked(count: int = 1) -> Decision:
    return decision([slower(i, 1.2 + i / 1000) for i in range(count)], **BLOCKED)


def one_body(github: FakeGitHub) -> str:
    (body,) = github.ours(PULL)
    return body


def state(github: FakeGitHub, sha: str = SHA) -> str:
    found = github.status(sha)
    assert found is not None
    return str(found["state"])


def shows(body: str, run: str) -> bool:
    return f"run={run} " in body.split("-->")[0]


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


@pytest.mark.parametrize("rows", [4000])
def test_thousands_of_rows_fit(github: FakeGitHub, publish: Gate, rows: int) -> None:
    assert publish(blocked(rows)) == 0
    assert len(one_body(github).encode()) <= 65_536
    assert f"{rows:,} of {rows:,} rows slower" in one_body(github)


def test_sixty_thousand_emoji_fit(github: FakeGitHub, publish: Gate) -> None:
    many = msgspec.structs.replace(slower(0, 1.3), model="🚀" * 60_000, op_type="🚀" * 60_000)
    assert publish(decision([many], **BLOCKED)) == 0
    assert len(one_body(github).encode()) <= 65_536
    found = github.status(SHA)
    assert found is not None
    assert len(found["description"]) <= 140
    assert all(ord(char) < 0x10000 for char in found["description"])


def test_a_comment_just_too_long_is_rendered_with_less(github: FakeGitHub, publish: Gate) -> None:
    long = decision([slower(0, 1.2)], **BLOCKED, problems=tuple("x" * 290 for _ in range(230)))
    assert publish(long) == 0
    body = one_body(github)
    assert len(body) <= 65_536
    assert "not listed here" in body
    assert "/actions/runs/11/attempts/1" in body, "the line with the run is never what is left out"


@pytest.mark.parametrize("short_of", range(60, 360, 60))
def test_the_last_line_counts_too(github: FakeGitHub, publish: Gate, short_of: int) -> None:
    from tests.render.test_limits import exactly, sized

    assert publish(sized(exactly(65_536 - short_of)), 11, "--comment", "always") == 0
    assert len(one_body(github).encode()) <= 65_536


def test_a_long_status_of_wide_characters_keeps_to_140(github: FakeGitHub, publish: Gate) -> None:
    wide = msgspec.structs.replace(slower(0, 1.2), op_type="中" * 141)
    assert publish(decision([wide], **BLOCKED)) == 0
    found = github.status(SHA)
    assert found is not None
    assert 0 < len(found["description"]) <= 140


@pytest.mark.parametrize(
    "name", ["a|b", "a\\|b", "a\nb", "@ada", "#12", "o/r#3", "https://x.example/y", "GH-4", "<!-- x"]
)
def test_no_name_acts_in_the_comment(github: FakeGitHub, publish: Gate, name: str) -> None:
    from tests.render.github import seen

    hostile = msgspec.structs.replace(slower(0, 1.2), op_type=name, model=name, dtype=name)
    assert publish(decision([hostile], **BLOCKED)) == 0
    page = seen(one_body(github))
    assert page.linked() == []
    links = [tag for tag in page.tags if tag.startswith(("a ", "img"))]
    assert len(links) == 1 and "/actions/runs/11/attempts/1" in links[0]


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


def test_a_merge_queue_gets_its_status_and_no_comment(github: FakeGitHub, publish: Gate) -> None:
    branch = f"gh-readonly-queue/main/pr-7-{'b' * 40}"
    github.add_run(12, OTHER, event="merge_group", head_branch=branch)
    assert publish(blocked(), 12) == 0
    assert github.count("POST", "/comments") == 0
    assert state(github, OTHER) == "failure"


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


def test_a_502_after_the_comment_was_made_leaves_one_comment(github: FakeGitHub, publish: Gate) -> None:
    github.plan = once("POST", "/comments", Fault("502", "after"))
    assert publish(blocked()) == 0
    assert github.count("POST", "/comments") == 1
    assert len(github.ours(PULL)) == 1


def once(method: str, part: str, fault: Fault):  # type: ignore[no-untyped-def]
    left = [fault]
    return lambda verb, path: left.pop() if left and verb == method and part in path else None


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
