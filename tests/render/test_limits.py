"""The size limits: 65,536 characters and bytes of a comment, 1 MiB of a step summary, 140 characters of a status."""

from __future__ import annotations

import re

import msgspec
import pytest

from gate import render
from gate.model.decision import Command, ControlMovement, Decision, Environment
from gate.render.page import COMMENT_STEPS, SUMMARY_STEPS, view
from gate.render.page import render as render_page
from tests.render.examples import BLOCKED, codegen, compiled, decision, row, side, slower
from tests.render.github import seen
from tests.render.situations import HOSTILE, SITUATIONS

LIMIT = 65_536


def sized(lengths: list[int], *, char: str = "x") -> Decision:
    return decision([row(0)], problems=tuple(char * length for length in lengths))


def exactly(size: int) -> list[int]:
    """Lengths of problem texts that make the full comment exactly `size` bytes."""
    lengths = [150] * 220
    rest = size - len(render.comment(sized(lengths), budget=10**9).encode())
    for index in range(len(lengths)):
        change = max(-140, min(140, rest))
        lengths[index] += change
        rest -= change
    return lengths


def test_a_comment_of_65536_bytes_is_whole_and_one_more_is_not() -> None:
    lengths = exactly(LIMIT)
    whole = render.comment(sized(lengths))
    assert len(whole.encode()) == LIMIT
    assert whole.count("- xxx") == len(lengths)
    over = next(index for index, length in enumerate(lengths) if length < 300)
    lengths[over] += 1
    less = render.comment(sized(lengths))
    assert len(less) < LIMIT
    assert "120 of 220 are not listed here: `decision.json` in this run's artifact has all." in less


def test_bytes_count_too() -> None:
    char = "\u4e2d"
    lengths = [150] * 220
    full = render.comment(sized(lengths, char=char), budget=10**9)
    assert len(full) < LIMIT < len(full.encode())
    assert "are not listed here" in render.comment(sized(lengths, char=char))


@pytest.mark.parametrize("count", [1, 99, 100, 101, 250, 400, 401, 1500, 20_000])
def test_any_number_of_rows_fits_and_the_rest_is_counted(count: int) -> None:
    comment = render.comment(decision([slower(index, 1.06 + index / 1000) for index in range(count)], **BLOCKED))
    assert len(comment.encode()) <= LIMIT
    shown = len(re.findall(r"^\| \*\*slower\*\*", comment, re.MULTILINE))
    assert shown in {count, *(cap for cap in COMMENT_STEPS if cap)}
    if shown < count:
        assert f"{count - shown:,} of {count:,} are not listed here" in comment
        assert "regressions.jsonl" in comment
    assert f"{count:,} rows: {count:,} slower" in comment or count == 1


def longest() -> Decision:
    """Everything as long and as expensive to escape as it can be."""
    text = "@$" * 5000
    name = {"op_type": text, "model": text, "dtype": text, "best_baseline": text, "evidence": text, "likely_fix": text}
    rows = [msgspec.structs.replace(slower(i, 1.1), **name, args={text: text}, detail=text) for i in range(60)]
    rows += [row(i, verdict="not_run", reasons=(text,), **{**name, "detail": text}) for i in range(60)]
    fields = {f"{text}{i}": text for i in range(60)}
    return decision(
        rows,
        **{**BLOCKED, "reasons": (text,) * 50},
        summary=text,
        next_step=text,
        problems=(text,) * 60,
        waivers=(fields,) * 50,
        policy=fields,
        error_rates=fields,
        environment=Environment(base=fields, head={}, differences=tuple(fields)),
        controls=tuple(ControlMovement(provider=text, n=1, ratio=2.0, moved=True) for _ in range(60)),
        commands=tuple(Command(what=text, line="x" * 600) for _ in range(50)),
    )


def test_the_longest_decision_still_fits() -> None:
    comment = render.comment(longest())
    assert len(comment.encode()) <= LIMIT
    assert "60 slower" in comment
    assert len(render.step_summary(longest()).encode()) <= 1_048_576


def test_the_longest_codegen_decision_still_fits() -> None:
    text = "@" * 5000
    rows = [compiled(i, "fail", side(1, 2, 3), side(2, 3, 2), *[text] * 20) for i in range(500)]
    rows = [
        msgspec.structs.replace(each, code=msgspec.structs.replace(each.code, compile_key=f"{text}{i}"))
        for i, each in enumerate(rows)
    ]
    comment = render.comment(codegen(rows, **BLOCKED))
    assert len(comment.encode()) <= LIMIT
    assert "are not listed here" in comment


def test_a_command_is_shown_whole_or_named() -> None:
    short, long = "gate run " + "x" * 591, "gate run " + "x" * 592
    shown = render.comment(decision([row(0)], commands=(Command(what="a", line=short), Command(what="b", line=long))))
    assert short in shown
    assert "xxx" not in shown.replace(short, "")
    assert "601 characters; it is in `decision.json`" in shown


def test_every_step_of_detail_is_whole_markdown() -> None:
    for name in ("many_rows_1500", "hostile_names", "codegen_fail", "environment_moved"):
        for cap in {*COMMENT_STEPS, *SUMMARY_STEPS}:
            text = render_page("step_summary.md.j2", view(SITUATIONS[name](), cap=cap))
            found = seen(text)
            assert found.tags.count("details") == found.tags.count("/details") > 0


def test_a_budget_below_the_summary_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        render.comment(SITUATIONS["pass_promote"](), budget=200)


@pytest.mark.parametrize("char", ["x", "µ", "\u4e2d", "\U0001f600", "e\u0301", "\u202e", "@"])
def test_a_status_has_at_most_140_characters_of_the_basic_plane(char: str) -> None:
    for length in range(160):
        name = char * length
        worst = msgspec.structs.replace(slower(0, 1.2), op_type=name, args={name: 1})
        for each in (decision([worst], **BLOCKED), decision([worst])):
            text = render.status(each).description
            assert len(text) <= 140
            assert len(text.encode("utf-16-le")) == 2 * len(text)
            assert text.isprintable()


def test_the_longest_tally_fits_a_status() -> None:
    verdicts = ("newly_incorrect", "newly_failed", "regressed", "missing", "waived", "inconclusive", "not_comparable")
    rows = [row(i, verdict=verdict) for i, verdict in enumerate([*verdicts, "not_run", "new"] * 1)]
    counts = {row.verdict: 1_000_000 for row in rows} | {"total": 9_000_000}
    for gate in ("block", "no_verdict", "pass"):
        text = render.status(decision(rows, gate=gate, counts=counts, reasons=("clean",))).description
        assert "of 9,000,000 rows" in text
        assert len(text) <= 140


def test_hostile_names_make_a_plain_status() -> None:
    for text in HOSTILE:
        name = text.encode("utf-8", "replace").decode("utf-8")
        said = render.status(decision([msgspec.structs.replace(slower(0, 1.3), op_type=name)], **BLOCKED)).description
        assert said.startswith("Blocked: 1 of 1 row slower; worst +30.0% ")
        assert said.isprintable()
