"""The verdict of every kind of change, one row each."""

from __future__ import annotations

from typing import Any

import pytest

from gate.codegen.diff import compare, compare_all
from gate.model.codegen import CodegenRecord, CodegenThresholds
from tests.codegen.records import broken, record

OTHER = "c" * 16


@pytest.mark.parametrize(
    ("changes", "verdict", "codes"),
    [
        ({}, "info", ["text_differs"]),
        ({"vgpr": 62}, "info", ["resources_differ"]),
        ({"instructions": 210}, "info", ["text_differs"]),
        ({"instructions": 211}, "warn", ["instructions_grew"]),
        ({"instructions": 100}, "info", ["text_differs"]),
        ({"vgpr_spills": 3}, "fail", ["spills_appeared"]),
        ({"sgpr_spills": 20}, "fail", ["spills_appeared"]),
        ({"scratch_bytes": 16}, "fail", ["scratch_appeared"]),
        ({"lds_bytes": 163840}, "info", ["resources_differ"]),
        ({"lds_bytes": 163841}, "fail", ["lds_over_limit"]),
        ({"waves_per_simd": 7, "vgpr": 72}, "warn", ["wave_lost"]),
        ({"agpr": 4}, "warn", ["agprs_appeared"]),
        ({"mix": {"buffer_load_dwordx4": 8, "s_waitcnt vmcnt(0)": 4}}, "warn", ["vmcnt0_doubled"]),
        ({"mix": {"buffer_load_dwordx4": 8, "s_waitcnt vmcnt(0)": 3}}, "info", ["text_differs"]),
        ({"mix": {"buffer_load_ushort": 64, "s_waitcnt vmcnt(0)": 2}}, "warn", ["vector_loads_lost"]),
        ({"mix": {"buffer_load_dwordx4": 4, "s_waitcnt vmcnt(0)": 2}}, "info", ["text_differs"]),
        ({"mix": {"buffer_load_dwordx4": 8, "buffer_load_dword": 4}}, "info", ["text_differs"]),
        ({"vgpr_spills": 1, "instructions": 400}, "fail", ["spills_appeared", "instructions_grew"]),
    ],
)
def test_verdict_of_one_change(changes: dict[str, Any], verdict: str, codes: list[str]) -> None:
    change = compare(record(), record(isa_sha=OTHER, **changes))
    assert (change.verdict, [finding.code for finding in change.findings]) == (verdict, codes)
    assert not change.same_code
    assert all(finding.text.endswith(".") for finding in change.findings)


@pytest.mark.parametrize(
    ("base", "head", "verdict", "codes"),
    [
        (record(), record(), "same", []),
        (record(), broken(), "fail", ["no_longer_compiles"]),
        (record(), broken(status="crashed"), "fail", ["no_longer_compiles"]),
        (record(), broken(status="timeout"), "fail", ["no_longer_compiles"]),
        (broken(), record(), "fixed", []),
        (broken(), broken(), "still_failing", ["does_not_compile"]),
        (None, record(), "new", []),
        (None, broken(), "new", ["does_not_compile"]),
        (record(), None, "missing", ["not_compiled"]),
    ],
)
def test_verdict_of_presence(
    base: CodegenRecord | None, head: CodegenRecord | None, verdict: str, codes: list[str]
) -> None:
    change = compare(base, head)
    assert (change.verdict, [finding.code for finding in change.findings]) == (verdict, codes)
    assert change.same_code is (verdict == "same")


def test_same_text_with_more_lds_is_not_the_same() -> None:
    change = compare(record(), record(lds_bytes=163841))
    assert change.verdict == "fail"


def test_a_lost_wave_fails_where_the_op_is_occupancy_bound() -> None:
    base, head = record("rmsnorm"), record("rmsnorm", OTHER, waves_per_simd=7)
    assert compare(base, head).verdict == "fail"
    assert compare(base, head, CodegenThresholds(occupancy_bound=frozenset())).verdict == "warn"


def test_spills_that_grow_are_a_warning() -> None:
    change = compare(record(vgpr_spills=2), record(isa_sha=OTHER, vgpr_spills=9))
    assert [(finding.code, finding.severity) for finding in change.findings] == [("spills_grew", "warn")]
    assert "2 to 9" in change.findings[0].text


def test_two_sets_keep_heads_order_and_name_what_only_base_has() -> None:
    base = {r.compile_key: r for r in (record("softmax"), record("gemm"))}
    head = {r.compile_key: r for r in (record("gemm"), record("vec_add"))}
    changes = compare_all(base, head)
    assert [(change.compile_key.split("/")[0], change.verdict) for change in changes] == [
        ("gemm", "same"),
        ("vec_add", "new"),
        ("softmax", "missing"),
    ]


def test_two_different_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="one compile key"):
        compare(record("gemm"), record("softmax"))
    with pytest.raises(ValueError, match="one compile key"):
        compare(None, None)
