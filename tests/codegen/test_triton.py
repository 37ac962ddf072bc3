"""Triton baselines as compile cases, and compiled for gfx950 where Triton is installed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from gate.codegen import cache, triton_cases
from gate.codegen.compile import compile_cases
from gate.codegen.keys import CompileCase, Unsupported
from gate.codegen.toolchains import ToolchainError, find_triton
from gate.replay import providers
from tests.codegen.test_checkout import shape

KERNELS = Path(providers.__file__).parent / "triton" / "kernels"
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="compiles with Triton, which is not installed here"
)


def case(op_type: str, dtype: str, **args: Any) -> CompileCase:
    found = triton_cases.compile_case(shape(op_type, dtype, args))
    assert isinstance(found, CompileCase)
    return found


@pytest.mark.parametrize(
    ("op_type", "args", "key"),
    [
        ("rmsnorm", {"M": 7, "N": 4096}, "rmsnorm/bf16/triton,columns=16,eps=float,BLOCK=4096,num_warps=4"),
        ("rmsnorm", {"M": 7, "N": 3001}, "rmsnorm/bf16/triton,columns=any,eps=float,BLOCK=4096,num_warps=4"),
        ("softmax", {"M": 1, "N": 128}, "softmax/bf16/triton,rows=one,columns=16,BLOCK=128,ROWS=1,num_warps=1"),
        ("softmax", {"M": 64, "N": 128}, "softmax/bf16/triton,rows=16,columns=16,BLOCK=128,ROWS=16,num_warps=2"),
        ("vec_add", {"N": 4096}, "vec_add/bf16/triton,count=16,BLOCK=4096,num_warps=8"),
    ],
)
def test_the_key_holds_what_triton_specialises_on(op_type: str, args: dict[str, Any], key: str) -> None:
    found = case(op_type, "bf16", **args)
    assert found.compile_key == key
    assert triton_cases.case_of(found.op_type, found.dtype, found.constexprs) == found


def test_the_request_names_types_constants_and_alignment() -> None:
    asked = case("gemm", "f16", M=1, N=512, K=1000).parts[0].values
    assert asked["signature"]["a"] == "*fp16" and asked["signature"]["k"] == "i32"
    assert asked["signature"]["m"] == "constexpr" and asked["constants"]["m"] == 1
    assert asked["aligned"] == ["n"] and asked["options"] == {"num_warps": 4, "num_stages": 2}


@pytest.mark.parametrize(
    ("op_type", "dtype", "args", "words"),
    [
        ("layernorm", "bf16", {"N": 8}, "no Triton baseline for layernorm"),
        ("rmsnorm", "fp8", {"N": 8}, "no Triton baseline for rmsnorm fp8"),
        ("rmsnorm", "bf16", {"N": 10**6}, "a whole row"),
        ("softmax", "bf16", {"M": 0, "N": 8}, "positive"),
        ("softmax", "bf16", {"N": 8}, "'M'"),
    ],
)
def test_a_shape_without_a_baseline_says_why(op_type: str, dtype: str, args: dict[str, Any], words: str) -> None:
    found = triton_cases.compile_case(shape(op_type, dtype, args))
    assert isinstance(found, Unsupported) and words in found.reason


def test_an_interpreter_without_triton_is_one_clear_error(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(ToolchainError, match=r"there is no Triton in .*pip install triton"):
        find_triton(python=str(bare), kernels=KERNELS, arch="gfx950")


@needs_triton
def test_the_baselines_compile_for_gfx950(tmp_path: Path) -> None:
    tools = find_triton(python=sys.executable, kernels=KERNELS, arch="gfx950")
    cases = [case("rmsnorm", "bf16", M=4, N=4096), case("gemm", "bf16", M=512, N=512, K=512)]
    norm, gemm = compile_cases(cases, kernels_dir=KERNELS, toolchain=tools, cache_dir=tmp_path, jobs=1)
    assert norm.metrics is not None and gemm.metrics is not None
    assert norm.provider == "triton" and norm.toolchain.triton_version
    assert gemm.metrics.lds_bytes > 0 and any(name.startswith("v_mfma") for name in gemm.metrics.mix)
    assert cache.case_of(gemm) == cases[1]
