"""What the comment, the status and the regression summary say of each situation."""

from __future__ import annotations

import re

import msgspec
import pytest

from gate import render
from gate.model.decision import Standing
from tests.render.examples import BLOCKED, codegen, compiled, decision, row, side, slower
from tests.render.situations import SITUATIONS


def visible_lines(comment: str) -> list[str]:
    return [line for line in comment.splitlines() if line.strip() and not line.startswith("<!--")]


@pytest.mark.parametrize(
    ("name", "verdict", "first", "second"),
    [
        (
            "pass_promote",
            "Pass, promote:",
            "none of 8 rows slower, 1.04x of the best baseline",
            "1.04x of aiter",
        ),
        (
            "pass_tune",
            "Pass, tune needed:",
            "none of 8 rows slower, 0.88x of the best baseline",
            "0.62x of aiter",
        ),
        ("guardrails", "Pass, promote with guardrails:", "0.97x of the best baseline", "0.97x of aiter"),
        ("block_one_row", "Blocked:", "1 of 8 rows slower", "+20.4%, 45.96 → 55.34 µs"),
        ("no_verdict", "No verdict:", "8 of 8 rows not measured", "8 rows: this run did not measure it"),
        ("first_run", "No verdict:", "8 of 8 rows new", "nothing to compare with in the base"),
        ("partial_run", "No verdict:", "3 of 8 rows not measured", "3 rows: this run did not measure it"),
        ("codegen_same", "Pass on machine code:", "same code for 2 kernels", "Nothing to do"),
        ("codegen_warn", "Pass on machine code:", "1 worth a look", "instructions 341 → 361"),
        ("codegen_fail", "Blocked on machine code:", "1 of 2 kernels worse", "registers spill: 0 → 20"),
        ("many_rows_1500", "Blocked:", "1,500 of 1,500 rows slower", "2.56x as long"),
    ],
)
def test_verdict_count_worst_and_next_step_come_first(name: str, verdict: str, first: str, second: str) -> None:
    lines = visible_lines(render.comment(SITUATIONS[name]()))
    assert verdict in lines[0]
    assert first in lines[0]
    assert second in lines[1]
    assert "**Next:**" in lines[1]


def test_changed_rows_come_worst_first_and_unchanged_ones_not_at_all() -> None:
    comment = render.comment(SITUATIONS["block_many_kinds"]())
    results = [
        line.split(" | ")[0].strip("| *").replace("&nbsp;", " ")
        for line in comment.splitlines()
        if line.startswith(("| **", "| faster"))
    ]
    assert results == ["newly wrong", "newly failing", "slower", "slower", "missing", "faster"]
    assert comment.index("10.40x") < comment.index("+8.0%")
    assert "| unchanged |" not in comment


def test_a_reason_that_all_changed_rows_share_is_said_once() -> None:
    rows = [slower(index, 1.2) for index in range(3)] + [slower(3, 1.3, detail="bank conflicts")]
    rows = [msgspec.structs.replace(each, reasons=("slower", "summaries_only"), evidence="") for each in rows]
    comment = render.comment(decision(rows, **BLOCKED))
    assert comment.count("only summaries of separate sessions were compared") == 1
    assert "True of all 4 changed rows: only summaries of separate sessions were compared" in comment
    assert comment.count("| as said above |") == 3
    assert comment.count("| bank conflicts |") == 1


def test_rows_not_compared_stand_apart_from_unchanged_ones() -> None:
    comment = render.comment(SITUATIONS["partial_run"]())
    assert "8 rows: 3 not measured, 5 unchanged" in comment
    assert "<summary>Not measured or not compared: 3 (not the same as unchanged)</summary>\n\n" in comment


def test_an_inconclusive_row_says_what_it_could_have_shown() -> None:
    noisy = row(0, verdict="inconclusive", reasons=("wide_interval",), mde=0.18)
    assert "a slowdown of 18% or more would have shown" in render.comment(decision([noisy, row(1)]))


def test_absent_and_moved_baselines_are_named_in_the_open() -> None:
    opened = render.comment(SITUATIONS["environment_moved"]()).split("<details>")[0]
    assert "not among the best: aiter_triton" in opened
    assert "aiter, pytorch" in opened
    assert "The environment differs in: driver version" in opened


def test_rows_of_one_compile_key_are_one_line() -> None:
    comment = render.comment(SITUATIONS["codegen_fail"]()).replace("&nbsp;", "")
    numbers = "| 4 | 80→**128** | 576→**701** | 6→**4** | 0→**20** |"
    assert [line.endswith(numbers) for line in comment.splitlines() if line.startswith("| **worse**")] == [True]
    assert "nothing about speed" in comment
    assert "µs" not in comment


def test_a_kernel_that_stopped_compiling_has_no_numbers_on_that_side() -> None:
    gone = compiled(0, "fail", side(45, 581, 8), None, "no longer compiles: LLVM aborted")
    comment = render.comment(codegen([gone], **BLOCKED)).replace("&nbsp;", " ")
    assert "45 → **none** | 581 → **none**" in comment


def test_a_codegen_run_never_speaks_of_promotion_or_speed() -> None:
    for name in ("codegen_same", "codegen_warn"):
        promoting = msgspec.structs.replace(SITUATIONS[name](), decision="promote", headline="promote")
        comment = render.comment(promoting)
        assert "Pass on machine code" in comment and "promote" not in comment and "µs" not in comment
        assert "promote" not in render.status(promoting).description


def test_a_block_without_a_slower_row_says_why() -> None:
    blocked = decision([row(index) for index in range(8)], **{**BLOCKED, "reasons": ("geomean_slower",)})
    assert "the rows together got slower" in visible_lines(render.comment(blocked))[0]


def test_a_run_whose_input_was_refused_says_so_first() -> None:
    refused = {"gate": "no_verdict", "decision": "blocked", "headline": "no_verdict", "reasons": ("refused_rows",)}
    lines = visible_lines(render.comment(decision([row(0)], **refused, problems=("head.jsonl line 8 is cut off",))))
    assert lines[0].endswith("No verdict: result rows were refused while reading")
    assert lines[1].startswith("Why: head.jsonl line 8 is cut off. **Next:**")


def test_numbers_that_are_none_or_not_finite_have_words() -> None:
    bad = float("nan")
    rows = [
        row(0, ratio=bad, ci=(bad, bad), base_us=float("inf"), head_us=bad, mde=bad, speedup_vs_best=bad),
        slower(1, 1.2, weight=None),
        row(2, verdict="regressed", ratio=float("inf"), args={"M": bad, "N": None, "flag": True, "list": [1, None]}),
    ]
    strange = decision(rows, policy={"a": {"x": bad, "y": None}}, error_rates={"rate": bad}, standings=standing(bad))
    for text in render.texts(strange).values():
        assert not re.findall(r"\b(NaN|nan|inf|Infinity)\b", text)
        assert "not measured" in text or text.startswith("{")


def standing(value: float) -> tuple[Standing, ...]:
    geomean = {"vs_best": value, "weighted": value, "vs_base": value, "n": 0}
    return (msgspec.convert({"by": "op", "name": "x", "rows": 1, "geomean": geomean}, Standing),)


def test_the_regression_summary_has_every_worse_row_with_its_id() -> None:
    text = render.regression_summary(SITUATIONS["many_rows_1500"]())
    assert len(re.findall(r"^- \*\*slower\*\*", text, re.MULTILINE)) == 1500
    assert text.count("<code>sha1:") == 1500
    assert "No row got worse." in render.regression_summary(SITUATIONS["pass_promote"]())


def test_marker_words_are_plain() -> None:
    passed = SITUATIONS["pass_promote"]()
    first = render.comment(passed, key="nightly", facts={"run": "7.1", "head": "abc123"}).splitlines()[0]
    assert first == "<!-- flydsl-gate:nightly v1 run=7.1 head=abc123 -->"
    for bad in ("a b", "-->", "", "a-", "x\n"):
        with pytest.raises(ValueError, match="plain word"):
            render.comment(passed, key=bad)
        with pytest.raises(ValueError, match="plain word"):
            render.comment(passed, facts={"run": bad})
