"""Triton baselines as compile cases, and compiled for gfx950 where Triton and torch are installed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from gate import replay, store
from gate.codegen import cache, triton_cases
from gate.codegen.compile import compile_cases
from gate.codegen.keys import CompileCase, Unsupported
from gate.codegen.toolchains import OWN_TRITON, ToolchainError, find_triton
from gate.model.codegen import CodegenRecord
from gate.replay.provider import kernels_of
from gate.resources import frozen_ledgers_dir
from tests.codegen.records import shape
from tests.needs import needs_triton

ENGINE = Path(replay.__file__).parent


def case(op_type: str, dtype: str, **args: Any) -> CompileCase:
    found = triton_cases.compile_case(shape(op_type, dtype, args))
    assert isinstance(found, CompileCase)
    return found


def compiled(cases: list[CompileCase], folder: Path) -> dict[str, CodegenRecord]:
    tools = find_triton(python=sys.executable, kernels=ENGINE, arch="gfx950")
    records = compile_cases(cases, kernels_dir=ENGINE, toolchain=tools, cache_dir=folder, jobs=1)
    return {record.compile_key: record for record in records}


@pytest.mark.parametrize(
    ("op_type", "args", "key"),
    [
        ("rmsnorm", {"M": 7, "N": 4096, "eps": 1e-5}, "rmsnorm/bf16/triton,M=7,N=4096,eps=1e-05"),
        ("rmsnorm", {"M": 2048, "N": 3001}, "rmsnorm/bf16/triton,M=2048,N=3001"),
        ("softmax", {"M": 257, "N": 128}, "softmax/bf16/triton,M=511,N=128"),
        ("vec_add", {"N": 2**20 - 16}, "vec_add/bf16/triton,N=1048576"),
        # The tile of a product depends on its rows.
        ("gemm", {"M": 2048, "N": 512, "K": 64}, "gemm/bf16/triton,M=2048,N=512,K=64"),
        # Beyond 2 GiB a tensor is addressed in another way.
        ("rmsnorm", {"M": 2**20, "N": 1024}, "rmsnorm/bf16/triton,M=1048576,N=1024"),
    ],
)
def test_sizes_that_choose_no_code_share_a_key(op_type: str, args: dict[str, Any], key: str) -> None:
    found = case(op_type, "bf16", **args)
    assert found.compile_key == key
    assert triton_cases.case_of(found.op_type, found.dtype, found.constexprs) == found


def test_an_argument_that_is_no_single_value_is_refused() -> None:
    found = triton_cases.compile_case(shape("gemm", "bf16", {"M": [1, 2], "N": 8}))
    assert isinstance(found, Unsupported) and "M is not one value" in found.reason


def test_the_ops_with_a_free_size_are_ops_with_a_ledger() -> None:
    assert {path.name for path in frozen_ledgers_dir().iterdir()} >= triton_cases.FREE.keys()


# What carries values and decides nothing about a kernel.
CARRIERS = {"compiling", "device", "memory_torch", "op", "provider", "scratch"}


def imported(path: Path) -> set[str]:
    """The modules of the engine that a source imports, as paths below its folder without the ending."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gate.replay"):
            inner = (node.module or "").removeprefix("gate.replay").strip(".")
            names |= {inner.replace(".", "/")} if inner else {alias.name for alias in node.names}
    return names


def test_what_the_kernels_are_made_from_is_what_their_sources_import() -> None:
    """Else a change beside them would leave a kept answer in place of the new code."""
    folder = Path(replay.__file__).parent
    places = [folder / place for place in OWN_TRITON]
    sources = [path for place in places for path in ([place] if place.is_file() else place.rglob("*.py"))]
    held = {place.removesuffix(".py") for place in OWN_TRITON}
    names = set().union(*map(imported, sources)) - CARRIERS
    assert len(names) > 10
    assert {name for name in names if not any(name == one or name.startswith(f"{one}/") for one in held)} == set()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ('exec {python} -S -I "$@"', r"there is no Triton in .*pip install triton"),
        ("echo 3.6.0; exit 1", r"there is no torch in .*build for the CPU"),
    ],
)
def test_an_interpreter_without_triton_or_torch_is_one_clear_error(tmp_path: Path, script: str, words: str) -> None:
    bare = tmp_path / "python"
    bare.write_text(f"#!/bin/sh\n{script.format(python=sys.executable)}\n")
    bare.chmod(0o755)
    with pytest.raises(ToolchainError, match=words):
        find_triton(python=str(bare), kernels=ENGINE, arch="gfx950")


@needs_triton
def test_the_baselines_compile_for_gfx950(tmp_path: Path) -> None:
    cases = [case("rmsnorm", "bf16", M=4, N=4096), case("gemm", "bf16", M=512, N=512, K=512)]
    found = compiled(cases, tmp_path)
    norm, gemm = (found[one.compile_key] for one in cases)
    assert norm.metrics is not None and gemm.metrics is not None
    assert norm.provider == "triton" and norm.toolchain.triton_version
    assert gemm.metrics.lds_bytes > 0 and any(name.startswith("v_mfma") for name in gemm.metrics.mix)
    assert cache.case_of(gemm) == cases[1]


@needs_triton
def test_a_shape_that_the_provider_refuses_or_lacks_says_why(tmp_path: Path) -> None:
    cases = [case("nonesuch", "bf16", M=4), case("gemm", "fp32", M=1, N=8, K=8)]
    found = compiled(cases, tmp_path)
    assert [record.status for record in found.values()] == ["unsupported", "unsupported"]
    lacking, refused = (str(record.error) for record in found.values())
    assert "no op 'nonesuch'" in lacking and "fp32" in refused


@needs_triton
@pytest.mark.parametrize(
    ("op_type", "args", "name", "sizes"),
    [
        ("rmsnorm", {"N": 128, "eps": 1e-5}, "M", (4112, 8192)),
        ("quant", {"N": 200, "out_dtype": "int8"}, "M", (5001, 8191)),
        ("vec_add", {}, "N", (5008, 8192)),
    ],
)
def test_one_shape_stands_for_the_code_of_all_of_its_key(
    tmp_path: Path, op_type: str, args: dict[str, Any], name: str, sizes: tuple[int, int]
) -> None:
    keys = {case(op_type, "bf16", **args, **{name: size}).compile_key for size in sizes}
    as_they_are = [triton_cases.case_of(op_type, "bf16", {"provider": "triton", **args, name: size}) for size in sizes]
    first, second = compiled(as_they_are, tmp_path).values()
    assert len(keys) == 1 and first.isa_sha == second.isa_sha and first.status == "ok"


@needs_triton
def test_every_kernel_of_the_provider_compiles_for_a_shape_of_its_ledger(tmp_path: Path) -> None:
    from gate.replay.providers import triton

    ops = [op for op in sorted(kernels_of(triton)) if (frozen_ledgers_dir() / op).is_dir()]
    assert len(ops) > 10
    shapes = [store.read_ledger(frozen_ledgers_dir() / op / store.LEDGER_FILE).shapes[0] for op in ops]
    cases = [found for one in shapes if isinstance(found := triton_cases.compile_case(one), CompileCase)]
    found = compiled(cases, tmp_path)
    assert {key: record.error for key, record in found.items() if record.status != "ok"} == {}
