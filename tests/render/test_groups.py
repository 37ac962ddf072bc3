"""Kernels that changed alike as one line, controls without a pair, and the part of the ledgers a run covers."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.console import Console

from gate import render
from gate.model.decision import ControlMovement, Decision
from gate.render import machine_code, sections, terminal
from tests.render.examples import BLOCKED, codegen, compiled, decision, row, side, slower
from tests.render.situations import SITUATIONS


def told(each: Decision) -> str:
    text = io.StringIO()
    terminal.show(each, Console(file=text, width=400, color_system=None))
    return text.getvalue()


def keyed(names: list[str], *, verdict: str = "warn", finding: str = "a wave is lost: 4 → 3") -> list:
    rows = [compiled(i, verdict, side(128, 341, 4), side(136, 361, 3), finding) for i in range(len(names))]
    return [
        msgspec.structs.replace(each, code=msgspec.structs.replace(each.code, compile_key=name))
        for each, name in zip(rows, names, strict=True)
    ]


def test_kernels_that_changed_alike_are_one_line_and_all_named_in_the_folded_part() -> None:
    comment = render.comment(SITUATIONS["codegen_alike"]())
    open_part, folded = comment.split("<details>", 1)
    assert len(re.findall(r"^\| worth", open_part, re.MULTILINE)) == 1
    assert "and 29 more" in open_part
    assert "| 30 |" in open_part
    names = {f"N={128 * (index + 1)}" for index in range(40)}
    assert names <= set(re.findall(r"N=\d+", folded))
    assert "Changed within limits: 10" in folded
    assert folded.count("two loads merged)") == 1  # Kernel 35 says its own; 36 to 39 say what the first says.


@pytest.mark.parametrize("field", ["dtype", "op_type"])
def test_kernels_of_another_op_or_dtype_are_not_alike(field: str) -> None:
    rows = keyed(["a", "b", "c"])
    rows[1] = msgspec.structs.replace(rows[1], **{field: "other"})
    groups = machine_code.grouped(machine_code.kernels(codegen(rows)))
    assert [[kernel.evidence.compile_key for kernel in group.kernels] for group in groups] == [["a", "c"], ["b"]]


@pytest.mark.parametrize("field", ["vgpr", "instructions", "waves_per_simd", "spills"])
def test_kernels_with_another_number_are_not_alike(field: str) -> None:
    rows = keyed(["a", "b"])
    code = rows[1].code
    head = msgspec.structs.replace(code.head, **{field: getattr(code.head, field) + 1})
    rows[1] = msgspec.structs.replace(rows[1], code=msgspec.structs.replace(code, head=head))
    assert len(machine_code.grouped(machine_code.kernels(codegen(rows)))) == 2


def test_kernels_that_compile_on_neither_side_are_not_alike() -> None:
    rows = [compiled(i * 4, "still_failing", None, None, f"error {i}") for i in range(2)]
    assert len(machine_code.grouped(machine_code.kernels(codegen(rows)))) == 2


def test_the_regression_summary_names_every_kernel() -> None:
    text = render.regression_summary(codegen(keyed([f"k{i}" for i in range(60)], verdict="fail"), **BLOCKED))
    assert {f"k{i}" for i in range(60)} <= set(re.findall(r"k\d+", text))


def test_a_comment_on_thousands_of_kernels_that_changed_alike_names_some_and_counts_the_rest() -> None:
    comment = render.comment(codegen(keyed([f"kernel{i:060}" for i in range(5000)])))
    assert len(comment.encode()) <= render.COMMENT_LIMIT
    assert "and 4,600 more, all in `decision.json`" in comment


@pytest.mark.parametrize("ratio", [None, 1.0, 1.5, float("nan")])
@pytest.mark.parametrize("moved", [True, False])
def test_a_control_without_a_paired_row_was_not_measured(ratio: float | None, moved: bool) -> None:
    line = sections.control(ControlMovement(provider="aiter", n=0, ratio=ratio, moved=moved))
    assert (line.word, line.change) == ("not measured", "not measured")


def test_the_other_words_of_a_control() -> None:
    words = [
        sections.control(ControlMovement(provider="aiter", n=n, ratio=1.1, moved=moved, absent=absent)).word
        for n, moved, absent in ((3, False, False), (3, True, False), (0, False, True))
    ]
    assert words == ["steady", "moved", "not measured in the head"]


def test_what_a_run_covers_is_said_everywhere_or_nowhere() -> None:
    scope = "8 of 20 frozen shapes; not part of this run, by op: gemm (12)"
    part, whole = decision([row(0)], scope=scope), decision([row(0)])
    for text in (render.comment(part), render.step_summary(part), told(part)):
        assert "This run covers 8 of 20 frozen shapes" in text or "this run covers 8 of 20 frozen shapes" in text
    for text in (render.comment(whole), render.step_summary(whole), told(whole)):
        assert "covers" not in text


def test_a_hostile_scope_is_harmless() -> None:
    comment = render.comment(decision([row(0)], scope="@all <img src=x> | #12"))
    assert "- This run covers &#64;&#8288;all &#60;img src=x&#62; &#124; &#35;&#8288;12\n" in comment
    assert "<img" not in comment and "@all" not in comment


def test_the_terminal_tells_changed_rows_worst_first_and_counts_the_rest() -> None:
    rows = [slower(i, 1.06 + i / 100) for i in range(25)] + [row(30, verdict="not_run", reasons=("not_run",))]
    text = told(decision(rows, **BLOCKED))
    assert re.findall(r"\+\d+\.\d%", text)[:2] == ["+30.0%", "+29.0%"]
    assert "and 5 more rows: see decision.json" in text
    assert "not judged: 1 row, this run did not measure it" in text
    assert max(map(len, text.splitlines())) < 120


def test_the_terminal_tells_kernels_that_changed_alike_once() -> None:
    text = told(SITUATIONS["codegen_alike"]())
    assert "rmsnorm/bf16/N=1024 and 29 more of rmsnorm bf16; 30 shapes" in text
    assert text.count("a wave is lost") == 1
    assert "VGPR 128 -> 136, instructions 341 -> 361, waves 4 -> 3, spills 0" in text


def test_a_name_cannot_steer_the_terminal() -> None:
    bad = "\x1b[2J\x07\u202e"
    text = told(decision([slower(0, 1.2, detail=bad)], **BLOCKED, problems=(bad,), scope=bad))
    assert not set(bad[:1] + bad[4:]) & set(text)
