"""Cases from public trackers of tools that comment on pull requests: texts that are too long, names that act."""

from __future__ import annotations

import msgspec
import pytest

from tests.publish.conftest import SHA, Gate
from tests.publish.fake import FakeGitHub
from tests.publish.looks import blocked, one_body
from tests.render.examples import BLOCKED, decision, slower


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
