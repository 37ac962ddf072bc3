"""Which shapes a GPU run may leave out, and why the others must be run."""

from __future__ import annotations

import msgspec

from gate.codegen.diff import compare
from gate.codegen.keys import CompileCase, Unsupported
from gate.codegen.triage import SameCode, triage
from gate.model.codegen import CodegenChange
from gate.model.shape import Shape
from tests.codegen.records import broken, record, shape

KEY = record().compile_key


def shapes(count: int) -> list[Shape]:
    return [msgspec.structs.replace(shape("gemm", "bf16", {}), shape_id=f"s{index}") for index in range(count)]


def found(change: CodegenChange | None, *, same_code: SameCode = "skip", count: int = 3) -> list[tuple[str, str]]:
    case = CompileCase(compile_key=KEY, op_type="gemm", dtype="bf16", constexprs={})
    rows = shapes(count)
    changes = {KEY: change} if change else {}
    lines = triage(rows, {row.shape_id: case for row in rows}, changes, same_code=same_code, samples=2)
    assert [line.shape_id for line in lines] == [row.shape_id for row in rows]
    return [(line.action, line.reason) for line in lines]


def test_equal_code_is_skipped_or_sampled() -> None:
    same = compare(record(), record())
    assert found(same) == [("skip", "same_code")] * 3
    assert found(same, same_code="sample") == [("sample", "same_code")] * 2 + [("skip", "same_code")]


def test_everything_else_is_run() -> None:
    assert found(compare(record(), record(isa_sha="c" * 16)), count=1) == [("run", "the code changed")]
    assert found(compare(record(), broken()), count=1) == [("run", "the code changed")]
    assert found(compare(None, record()), count=1) == [("run", "base has no code of it")]
    assert found(compare(broken(), broken()), count=1) == [("run", "it compiles on neither side")]
    assert found(None, count=1) == [("run", "not compiled on either side")]


def test_another_launch_of_the_same_code_is_run() -> None:
    one = msgspec.structs.replace(record(), launch_sha="1" * 16)
    two = msgspec.structs.replace(record(), launch_sha="2" * 16)
    change = compare(one, two)
    assert change.verdict == "info" and [finding.code for finding in change.findings] == ["launch_differs"]
    assert found(change, count=1) == [("run", "the code changed")]
    assert compare(one, one).same_code and compare(one, record()).same_code


def test_a_shape_without_code_is_run_with_the_reason() -> None:
    row = shapes(1)[0]
    refused = {row.shape_id: Unsupported(op_type="gemm", dtype="bf16", reason="too wide")}
    (line,) = triage([row], refused, {}, same_code="skip", samples=2)
    assert (line.action, line.reason) == ("run", "no code to compare: too wide")
    (line,) = triage([row], {}, {}, same_code="skip", samples=2)
    assert line.action == "run"
