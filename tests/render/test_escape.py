"""The escaping filter against GitHub's own parser."""

from __future__ import annotations

import re

import pytest

from gate.render.escape import Safe, code, escape, fenced, joined, say, visible
from gate.render.page import finalize
from tests.render.fragments import FRAGMENTS, hostile
from tests.render.github import JOINER, seen

HOSTILE_COUNT = 20_000
BATCH = 100


def page_of(texts: list[str]) -> str:
    """Each text in a table cell as code and as prose, at the start of a line, inside one and in a list."""
    rows = [f"| {code(text)} | {escape(text)} | z |" for text in texts]
    prose = [f"{escape(text)}\n\nsee {escape(text)} here, {code(text)}" for text in texts]
    items = [f"- {escape(text)}" for text in texts]
    return "\n".join(["| a | b | c |", "|---|---|---|", *rows, "", "\n\n".join(prose), "", *items]) + "\n"


def expected_tags(texts: list[str]) -> list[str]:
    """The elements that `page_of` must give and no others; a dollar sign in prose brings a span of its own."""
    head = ["table", "thead", "tr", *["th", "/th"] * 3, "/tr", "/thead", "tbody"]
    rows, prose, items = [], [], []
    for text in texts:
        spans = ["span", "/span"] * visible(text).count("$")
        rows += ["tr", "td", "code", "/code", "/td", "td", *spans, "/td", "td", "/td", "/tr"]
        prose += ["p", *spans, "/p", "p", *spans, "code", "/code", "/p"]
        items += ["li", *spans, "/li"]
    return [*head, *rows, "/tbody", "/table", *prose, "ul", *items, "/ul"]


def faults(texts: list[str]) -> list[str]:
    """What is wrong with the page of these texts; empty if nothing."""
    found = seen(page_of(texts))
    out = [] if found.tags == expected_tags(texts) else ["other elements than ours"]
    out += [f"linked: {hit}" for hit in found.linked()]
    out += [f"comment: {text}" for text in found.comments]
    said = "".join(text for text, _ in found.texts).replace(JOINER, "")
    squeezed = re.sub(r"\s+", "", said)
    for text in texts:
        if re.sub(r"\s+", "", visible(text)) not in squeezed:
            out.append(f"text lost: {text!r}")
    return out


def test_hostile_strings_come_through_githubs_parser_as_text() -> None:
    texts = hostile(HOSTILE_COUNT)
    broken = [fault for at in range(0, len(texts), BATCH) for fault in faults(texts[at : at + BATCH])]
    assert broken == []


@pytest.mark.parametrize("fragment", [text for text in FRAGMENTS if text.strip()])
def test_each_fragment_alone(fragment: str) -> None:
    assert faults([fragment]) == []


@pytest.mark.parametrize(
    "text",
    [
        "@ROCm/all",
        "fixes #12",
        "o/r#3",
        "GH-4",
        "see https://evil.example",
        "www.evil.example",
        ":tada:",
        "a5acc3f",
        "<b>",
        "![i](u)",
        "~~x~~",
    ],
)
def test_the_detector_sees_what_the_filter_prevents(text: str) -> None:
    """Without the filter each of these is found, so that the tests above can fail."""
    raw = seen(f"x {text} y\n")
    assert raw.linked() or raw.tags != ["p", "/p"]


def test_no_invisible_character_survives() -> None:
    shown = visible("a\u202eb\u200bc\x00d\ud800e\U000e0041")
    assert shown == "a[U+202E]b[U+200B]c[U+0000]d[U+D800]e[U+E0041]"
    assert visible("e" + "\u0301" * 4) == "e\u0301\u0301[U+0301][U+0301]"


def test_lines_and_blanks_become_one_line() -> None:
    assert visible("  a\r\nb\t c\u2003\u2003d ") == "a⏎⏎b c d"
    assert visible("") == visible(" \t ") == "(empty)"


def test_a_long_text_says_how_much_is_left_out() -> None:
    assert visible("x" * 300) == "x" * 300
    assert visible("x" * 301) == "x" * 300 + " …(+1 characters)"
    assert visible("\x00" * 50, limit=20) == "[U+0000][U+0000] …(+48 characters)"


def test_ordinary_names_stay_readable_in_the_source() -> None:
    assert code("rmsnorm M=32 N=8192 bf16") == "<code>rmsnorm M=32 N=8192 bf16</code>"
    assert code("gemm/bf16/K=64,block_m=32") == "<code>gemm/bf16/K=64,block_m=32</code>"
    assert code("2.9.1+rocm7.2") == "<code>2.9.1+rocm7.2</code>"
    assert escape("a wave is lost: 4 → 3") == "a wave is lost: 4 → 3"


def test_a_mark_is_lost_by_every_operation() -> None:
    mark = Safe("<b>")
    assert type(Safe("%s") % "<i>") is type(Safe("{}").format("<i>")) is str
    for text in (mark + "<i>", mark[0:], mark.upper(), mark.strip(), f"{mark}", "".join([mark]), mark * 2):
        assert type(text) is str
        assert "<" not in finalize(text)


def test_sentences_escape_what_they_are_given() -> None:
    assert say("{a}: {b}", a="<", b=Safe("<b>")) == "&#60;: <b>"
    assert joined(", ", [Safe("a"), Safe("b")]) == "a, b"


@pytest.mark.parametrize(
    "line", ["echo '```'", "a\n```\n</details>", "x ````` y", "```", "\u202erm -rf", "gate run --op 'a|b'"]
)
def test_a_command_cannot_leave_its_block(line: str) -> None:
    found = seen(f"before\n\n{fenced(line)}\n\nafter @x\n")
    assert found.tags == ["p", "/p", "pre", "code", "/code", "/pre", "p", "/p"]


def test_an_ordinary_command_is_not_changed() -> None:
    line = "gate replay --op 'rmsnorm' --out \"$DIR/x\" && echo @a | tee #1"
    assert fenced(line) == f"```\n{line}\n```"
