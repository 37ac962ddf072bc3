"""Dry run, GitHub Enterprise, step summary, annotations, and what the command line refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.commands import judged, publish_texts
from gate.publish import sinks
from gate.publish.hub import api_url
from gate.publish.scope import harmless
from tests.publish.conftest import PULL, SHA, Gate, environment
from tests.publish.fake import REPO, FakeGitHub, running
from tests.publish.looks import blocked, passing
from tests.render.examples import BLOCKED, decision, slower


def printed(text: str) -> list[tuple[str, dict[str, str]]]:
    found = []
    decoder = json.JSONDecoder()
    for part in text.split(f" /repos/{REPO}")[1:]:
        path, _, rest = part.partition("\n")
        found.append((path, decoder.raw_decode(rest)[0] if rest.startswith("{") else {}))
    return found


def test_a_dry_run_prints_exactly_what_is_then_sent(
    github: FakeGitHub, publish: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish(passing()) == 0
    github.add_run(12, SHA)
    writes = len([entry for entry in github.log if entry[0] != "GET"])
    capsys.readouterr()
    assert publish(blocked(), 12, "--dry-run") == 0
    told = capsys.readouterr().out
    assert len([entry for entry in github.log if entry[0] != "GET"]) == writes, "nothing was sent"
    bodies: list[tuple[str, object]] = []
    posted = github.answer

    def recording(method: str, path: str, query: object, body: object, token: object):  # type: ignore[no-untyped-def]
        if method != "GET":
            bodies.append((path.removeprefix(f"/repos/{REPO}"), body or {}))
        return posted(method, path, query, body, token)  # type: ignore[arg-type]

    github.answer = recording  # type: ignore[method-assign]
    assert publish(blocked(), 12) == 0
    assert printed(told) == bodies
    assert [line.split()[0] for line in told.splitlines() if f" /repos/{REPO}" in line] == ["POST", "DELETE", "POST"]


def test_a_dry_run_without_a_token_reads_nothing(
    github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    store.write_json(tmp_path / judged.DECISION_FILE, blocked())
    assert run(["publish", "--from", str(tmp_path), "--pr", "7", "--sha", SHA, "--dry-run"]) == 0
    assert github.log == []
    assert [path for path, _ in printed(capsys.readouterr().out)] == ["/issues/7/comments", f"/statuses/{SHA}"]


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize(
    ("commit", "warned"),
    [("b" * 40, True), ("b" * 7, True), (f"{'b' * 40}-dirty", True), (SHA, False), (f"{SHA[:9]}-dirty", False),
     (f"{'b' * 40}, {SHA}", False), ("flydsl 0.5.0", False), (None, False)],
)  # fmt: skip
def test_a_decision_of_another_commit_than_named_is_told_in_one_line(
    github: FakeGitHub, tmp_path: Path, capsys: pytest.CaptureFixture[str], commit: str | None, warned: bool, dry: bool
) -> None:
    found = blocked()
    head = {**found.environment.head, **({} if commit is None else {"candidate_commit": commit})}
    stack = msgspec.structs.replace(found.environment, head=head)
    store.write_json(tmp_path / judged.DECISION_FILE, msgspec.structs.replace(found, environment=stack))
    argv = ["publish", "--from", str(tmp_path), "--pr", str(PULL), "--sha", SHA]
    assert run([*argv, *(["--dry-run"] if dry else [])]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "the decision is of commit" in line]
    assert len(told) == warned
    assert not warned or ("commit bbbbbbb" in told[0] and f"--sha says {SHA[:12]}" in told[0])


def test_what_a_run_itself_measured_is_not_held_against_its_rows(
    github: FakeGitHub, publish: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    found = blocked()
    stack = msgspec.structs.replace(found.environment, head={"candidate_commit": "b" * 40})
    assert publish(msgspec.structs.replace(found, environment=stack)) == 0
    assert "the decision is of commit" not in capsys.readouterr().err


def test_a_person_publishes_to_a_pull_request_whose_head_was_judged(github: FakeGitHub, tmp_path: Path) -> None:
    store.write_json(tmp_path / judged.DECISION_FILE, blocked())
    assert run(["publish", "--from", str(tmp_path), "--pr", str(PULL), "--sha", SHA]) == 0
    assert len(github.ours(PULL)) == 1
    github.pulls[PULL]["head"]["sha"] = "c" * 40
    store.write_json(tmp_path / judged.DECISION_FILE, passing())
    assert run(["publish", "--from", str(tmp_path), "--pr", str(PULL), "--sha", SHA]) == 0
    assert "verdict=block" in github.ours(PULL)[0], "another head: only the status was set"


def test_github_enterprise_has_its_api_below_a_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with running(prefix="/api/v3") as fake:
        environment(fake, monkeypatch)
        fake.add_pull(PULL, SHA)
        fake.add_run(11, SHA)
        store.write_json(tmp_path / judged.DECISION_FILE, blocked())
        assert run(["publish", "--from", str(tmp_path), "--run", "11"]) == 0
        assert len(fake.ours(PULL)) == 1
        assert fake.violations == []


def test_the_api_is_githubs_unless_the_environment_says_otherwise() -> None:
    assert api_url({}) == api_url({"GITHUB_API_URL": ""}) == "https://api.github.com"
    assert api_url({"GITHUB_API_URL": "https://ghe.example/api/v3/"}) == "https://ghe.example/api/v3"


def test_summary_and_annotations_where_a_runner_shows_them(
    github: FakeGitHub,
    publish: Gate,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    hostile = msgspec.structs.replace(slower(0, 1.5), op_type="a\n::error::b,title=c%0A", detail="x\r\n::stop::y")
    rows = [hostile, *(slower(i, 1.2 + i / 100) for i in range(1, 30))]
    assert publish(decision(rows, **BLOCKED)) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::")]
    assert len(told) == sinks.MOST_ANNOTATIONS
    assert all(re.fullmatch(r"::error title=[^:,]+::[^\r\n]+", line) for line in told)
    assert told[0].startswith("::error title=slower%3A a⏎%3A%3Aerror%3A%3Ab%2Ctitle=c%250A M=1 N=8192 bf16::")
    assert "21 more rows" in told[-1]
    assert "30 of 30 rows slower" in (tmp_path / "summary").read_text()


def test_an_annotation_stays_one_command() -> None:
    one = sinks.Annotation(level="error", title="a:b,c\nd%", message="e\r\n::error::f%0A\x1b[0m")
    line = sinks.workflow_command(one)
    assert "\n" not in line and "\r" not in line and "\x1b" not in line
    assert line == "::error title=a%3Ab%2Cc%0Ad%25::e%0D%0A::error::f%250A�[0m"


def test_a_no_verdict_is_annotated_too() -> None:
    (only,) = publish_texts.worst(judged.unusable(()))
    assert "no verdict" in only.title and only.message


def test_a_summary_that_would_be_too_long_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    environ = {"GITHUB_STEP_SUMMARY": str(path)}
    assert sinks.write_summary("x" * (sinks.STEP_SUMMARY_LIMIT - 1), environ)
    assert path.stat().st_size == sinks.STEP_SUMMARY_LIMIT
    assert not sinks.write_summary("y", environ)
    assert not sinks.write_summary("y", {})


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], 64),
        (["--pending", "--error", "x", "--run", "11"], 64),
        (["--error", "x"], 64),
        (["--error", "x", "--sha", "main"], 64),
        (["--error", "x", "--run", "11", "--repo", "no slash"], 64),
        (["--error", "x", "--run", "404"], 2),
    ],
)
def test_wrong_wishes_are_one_line(
    github: FakeGitHub, capsys: pytest.CaptureFixture[str], argv: list[str], code: int
) -> None:
    assert run(["publish", *argv]) == code
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_error_can_be_reported_in_words(github: FakeGitHub) -> None:
    assert run(["publish", "--error", "the runner is out of disk", "--run", "11"]) == 0
    found = github.status(SHA)
    assert found is not None and found["state"] == "error"
    assert "out of disk" in github.ours(PULL)[0]


@pytest.mark.parametrize(
    ("files", "yes"),
    [
        (["README.md", "docs/a/b.png"], True),
        (["docs.py"], False),
        (["kernels/docs/a.py"], False),
        ([".github/workflows/gate.yml"], False),
        (["a.md", "x"], False),
        ([], False),
    ],
)
def test_only_named_paths_are_harmless(files: list[str], yes: bool) -> None:
    assert harmless(files) is yes
