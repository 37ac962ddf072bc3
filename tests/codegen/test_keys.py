"""Which shapes share code, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest

from gate.codegen.keys import CompileCase, Unsupported, compile_case, unique_cases
from gate.model.shape import Shape
from tests.codegen import records


def shape(op_type: str, dtype: str = "bf16", **args: Any) -> Shape:
    return records.shape(op_type, dtype, args)


def key(op_type: str, dtype: str = "bf16", **args: Any) -> str:
    case = compile_case(shape(op_type, dtype, **args))
    assert isinstance(case, CompileCase), case
    return case.compile_key


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (shape("rmsnorm", M=1, N=8192), "rmsnorm/bf16/N=8192"),
        (shape("rmsnorm", M=64, N=8192.0, eps=1e-05), "rmsnorm/bf16/N=8192"),
        (shape("rmsnorm", M=64, N=8192, eps=1e-06), "rmsnorm/bf16/N=8192,eps=1e-06"),
        (shape("softmax", "f32", M=64, N=5001), "softmax/f32/N=5001"),
        (shape("vec_add", "f16", N=1 << 20), "vec_add/f16/width=8"),
        (shape("vec_add", "f32", N=4099), "vec_add/f32/width=1"),
        (shape("gemm", M=16, N=4096, K=7168), "gemm/bf16/K=7168,block_m=32,block_n=128,block_k=64"),
        (shape("gemm", M=4096, N=64, K=64), "gemm/bf16/K=64,block_m=128,block_n=64,block_k=64"),
    ],
)
def test_the_key_of_a_shape(row: Shape, expected: str) -> None:
    case = compile_case(row)
    assert isinstance(case, CompileCase) and case.compile_key == expected


def test_shapes_that_differ_in_m_share_one_key() -> None:
    cases = [compile_case(shape("rmsnorm", M=m, N=n)) for n in (8192, 4096) for m in (1, 16, 4096)]
    unique = unique_cases([case for case in cases if isinstance(case, CompileCase)])
    assert [case.compile_key for case in unique] == ["rmsnorm/bf16/N=8192", "rmsnorm/bf16/N=4096"]
    assert key("gemm", M=64, N=128, K=64) == key("gemm", M=8192, N=4096, K=64)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (shape("moe_gemm", M=1), "no kernel for moe_gemm"),
        (shape("rmsnorm", M=1), "N must be a positive integer, got None"),
        (shape("rmsnorm", M=0, N=8192), "M must be a positive integer, got 0"),
        (shape("rmsnorm", M=1, N="8192"), "N must be a positive integer, got '8192'"),
        (shape("rmsnorm", M=1, N=float("inf")), "N must be a positive integer"),
        (shape("rmsnorm", M=1, N=float("nan")), "N must be a positive integer"),
        (shape("rmsnorm", M=1, N=8192, eps="x"), "eps must be a number"),
        (shape("rmsnorm", "fp8", M=1, N=8192), "dtype fp8"),
        (shape("rmsnorm", M=1, N=131072), "at most 65536 elements"),
        (shape("softmax", M=1, N=65536), "at most 32768 elements"),
        (shape("softmax", M=1 << 17, N=16384), "buffer instructions reach"),
        (shape("gemm", "f32", M=1, N=64, K=64), "dtype f32"),
        (shape("gemm", M=1, N=64, K=100), "K=100"),
        (shape("gemm", M=1, N=100, K=64), "N=100"),
    ],
)
def test_a_refusal_is_data_and_names_the_constraint(row: Shape, words: str) -> None:
    refusal = compile_case(row)
    assert isinstance(refusal, Unsupported) and words in refusal.reason
