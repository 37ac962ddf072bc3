"""Finding the hot loop in assembly, and putting two of them side by side."""

from __future__ import annotations

from gate.codegen.loops import Loop, hot_loop, loops
from gate.codegen.side_by_side import aligned, mix, resources
from tests.codegen.records import broken, record

NESTED = """
kernel:
  s_load_dwordx2 s[0:1], s[2:3], 0x0   ; arguments
.LBB0_1:                                ; outer
  s_add_u32 s0, s0, 1
.LBB0_2:
  v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]
  s_cbranch_scc1 .LBB0_2
  s_cbranch_vccnz .LBB0_1
.LBB0_3:
  v_add_f32_e32 v0, v1, v2
  v_add_f32_e32 v0, v1, v2
  v_add_f32_e32 v0, v1, v2
  s_cbranch_execz .LBB0_4
  s_branch .LBB0_3
.LBB0_4:
  s_endpgm
"""


def test_innermost_loops_and_the_one_with_matrix_steps() -> None:
    found = loops(NESTED)
    assert [len(loop.lines) for loop in found] == [3, 6]
    hot = hot_loop(NESTED)
    assert hot is not None and hot.matrix_steps == 1 and hot.lines[0] == ".LBB0_2:"
    assert hot.lines[-1] == "s_cbranch_scc1 .LBB0_2"


def test_straight_code_has_no_hot_loop_and_more_instructions_win_without_matrix_steps() -> None:
    assert hot_loop("kernel:\n  s_endpgm\n") is None
    hot = hot_loop(NESTED.replace("v_mfma", "v_other"))
    assert hot is not None and hot.lines[0] == ".LBB0_3:"


def test_labels_of_a_second_module_are_not_confused_with_the_first() -> None:
    second = ".LBB0_1:\n  v_mul_f32_e32 v0, v0, v0\n  s_cbranch_scc1 .LBB0_1\n"
    assert [len(loop.lines) for loop in loops(NESTED + second)] == [3, 6, 3]


def test_alignment_looks_past_registers() -> None:
    base = Loop(lines=(".L1:", "v_add v0, v1", "v_mul v2, v3", "s_cbranch .L1"))
    head = Loop(lines=(".L9:", "v_add v8, v9", "v_fma v1, v1", "v_fma v2, v2", "s_cbranch .L9"))
    lines = aligned(base, head)
    assert [line.changed for line in lines] == [False, False, True, True, False]
    assert (lines[2].base, lines[2].head, lines[3].base) == ("v_mul v2, v3", "v_fma v1, v1", "")
    assert [line.head for line in aligned(None, head)] == list(head.lines)


def test_numbers_of_both_sides() -> None:
    rows = {row.name: row for row in resources(record(vgpr=60), record(vgpr=64))}
    assert (rows["VGPRs"].base, rows["VGPRs"].head, rows["VGPRs"].differs) == (60, 64, True)
    assert not rows["AGPRs"].differs
    assert {row.head for row in resources(record(), broken())} == {None}
    groups = {row.name: (row.base, row.head) for row in mix(record(mix={"a": 1}), record(mix={"b": 2}))}
    assert groups == {"a": (1, 0), "b": (0, 2)}
