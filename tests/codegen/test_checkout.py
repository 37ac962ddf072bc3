"""The kernels of a checkout as cases: which there are, which shape needs which, and what files decide them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate.binding.families.kernel import Part
from gate.codegen import cache, checkout
from gate.codegen.keys import CompileCase, Unsupported
from gate.model.codegen import CodegenRecord, Toolchain
from tests.codegen.records import shape


def test_every_family_has_cases_and_every_key_is_its_own() -> None:
    cases = checkout.representative()
    keys = [case.compile_key for case in cases]
    assert len(keys) == len(set(keys)) > 120
    families = {checkout.family_of(case.op_type) for case in cases}
    assert families == {"norm", "gemm", "attention", "moe", "conv", "quant"}
    assert all(case.parts and (part.builders or part.launchers) for case in cases for part in case.parts)
    assert {case.op_type for case in cases} == set(checkout.KERNELS)


@pytest.mark.parametrize("case", checkout.representative(), ids=lambda case: case.compile_key)
def test_a_case_can_be_made_again_from_its_record(case: CompileCase, tmp_path: Path) -> None:
    worker = "w"
    tools = Toolchain(flydsl_version="1", llvm="l", kernels=checkout.NAME, kernels_sha="k", arch="gfx950")
    record = CodegenRecord(
        compile_key=case.compile_key,
        op_type=case.op_type,
        dtype=case.dtype,
        constexprs=case.constexprs,
        status="failed",
        toolchain=tools,
        arch="gfx950",
    )
    # Files hold the constexprs in alphabetical order, and what was compiled must be found again all the same.
    read = msgspec.json.decode(msgspec.json.encode(record, order="sorted"), type=CodegenRecord)
    again = cache.case_of(read)
    assert again == case
    assert cache.entry_path(tmp_path, tools, again, worker_sha=worker) == cache.entry_path(
        tmp_path, tools, case, worker_sha=worker
    )


@pytest.mark.parametrize(
    ("op_type", "dtype", "args", "key"),
    [
        ("rmsnorm", "bf16", {"M": 3, "N": 4096, "eps": 1e-5}, "rmsnorm/bf16/N=4096"),
        ("rmsnorm", "fp16", {"M": 9, "N": 4096, "eps": 1e-6}, "rmsnorm/f16/N=4096,eps=1e-06"),
        ("softmax", "fp32", {"M": 9, "N": 128.0}, "softmax/f32/N=128"),
        (
            "topk_gating_softmax",
            "bf16",
            {"num_tokens": 4, "num_experts": 8, "topk": 2},
            "topk_gating_softmax/bf16/num_experts=8,topk=2",
        ),
        (
            "preshuffle_gemm",
            "fp8",
            {"M": 16, "N": 5120, "K": 8192},
            "preshuffle_gemm/fp8/N=5120,K=8192,tile_m=16,tile_n=64,tile_k=256",
        ),
        (
            "preshuffle_gemm",
            "fp4",
            {"M": 16, "N": 5120, "K": 8192},
            "mxfp_gemm/fp4/N=5120,K=8192,tile_m=32,tile_n=128,tile_k=256,b_dtype=fp4",
        ),
        (
            "flash_attn",
            "bf16",
            {"batch": 1, "causal": True, "dim_qk": 128, "dim_v": 128, "heads": 8, "kv_heads": 1, "seq_q": 5},
            "flash_attn/bf16/num_heads=8,head_dim=128,causal=True,num_kv_heads=1",
        ),
        (
            "moe_reduce",
            "bf16",
            {"model_dim": 7168, "num_tokens": 4, "topk": 8},
            "moe_reduction/bf16/topk=8,model_dim=7168",
        ),
    ],
)
def test_shapes_that_differ_in_rows_share_a_key(op_type: str, dtype: str, args: dict[str, Any], key: str) -> None:
    found = checkout.compile_case(shape(op_type, dtype, args))
    assert isinstance(found, CompileCase) and found.compile_key == key


@pytest.mark.parametrize(
    ("op_type", "dtype", "args", "words"),
    [
        ("vec_add", "bf16", {"N": 8}, "no kernel for vec_add"),
        ("hgemm", "bf16", {}, "no kernel for hgemm"),
        ("rmsnorm", "fp8", {"M": 1, "N": 8}, "dtype fp8"),
        ("rmsnorm", "bf16", {"M": 1, "N": 0}, "N must be a positive integer, got 0"),
        ("rmsnorm", "bf16", {"M": 1}, "N must be a positive integer, got None"),
        ("preshuffle_gemm", "fp8", {"M": 16, "N": 5100, "K": 8192}, "needs multiples of 64"),
        ("gemm", "bf16", {"M": 16, "N": 512, "K": 1000}, "K=1000"),
        ("mla_decode", "fp8", {"heads": 16}, "128 heads"),
        ("flash_attn", "bf16", {"dim_qk": 192, "dim_v": 128, "heads": 8, "kv_heads": 8}, "equal widths"),
        ("fused_rope_cache", "bf16", {"rotate_style": "gptj"}, "rotate_style gptj"),
    ],
)
def test_a_shape_without_code_says_why(op_type: str, dtype: str, args: dict[str, Any], words: str) -> None:
    found = checkout.compile_case(shape(op_type, dtype, args))
    assert isinstance(found, Unsupported) and words in found.reason


def test_experts_by_the_rows_that_one_of_them_sees() -> None:
    sizes = {"Dim1": 7168, "Dim2": 512, "E": 256, "TopK": 8}
    few = checkout.compile_case(shape("moe_gemm", "fp8", {**sizes, "M": 1}))
    many = checkout.compile_case(shape("moe_gemm", "fp8", {**sizes, "M": 16384}))
    packed = checkout.compile_case(shape("moe_gemm", "fp4", {**sizes, "M": 1}))
    assert isinstance(few, CompileCase) and isinstance(many, CompileCase) and isinstance(packed, CompileCase)
    assert (few.constexprs["tile_m"], many.constexprs["tile_m"]) == (16, 64)
    assert packed.constexprs["weights"] == "mxfp4" and len(packed.parts) == 2


FILES = {
    "kernels/__init__.py": "",
    "kernels/norm/__init__.py": "",
    "kernels/norm/one.py": "from kernels.common import shared\ndef build():\n    import kernels.common.late\n",
    "kernels/norm/two.py": "from . import three\n",
    "kernels/norm/three.py": "x = 1\n",
    "kernels/common/__init__.py": "",
    "kernels/common/shared.py": "from .deep import y\n",
    "kernels/common/deep.py": "y = 1\n",
    "kernels/common/late.py": "z = 1\n",
    "kernels/moe/other.py": "w = 1\n",
}


def hashes(root: Path) -> dict[str, str]:
    sources = checkout.Sources(root)
    return {name: sources.sha([Part(modules=(f"kernels.norm.{name}",))]) for name in ("one", "two")}


@pytest.mark.parametrize(
    ("edited", "moved"),
    [
        ("kernels/norm/one.py", {"one"}),
        ("kernels/common/deep.py", {"one"}),
        ("kernels/common/late.py", {"one"}),
        ("kernels/norm/three.py", {"two"}),
        ("kernels/norm/__init__.py", {"one", "two"}),
        ("kernels/moe/other.py", set()),
    ],
)
def test_an_edit_moves_the_cases_that_can_reach_it(tmp_path: Path, edited: str, moved: set[str]) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = hashes(tmp_path)
    assert before == hashes(tmp_path) and before["one"] != before["two"]
    (tmp_path / edited).write_text(FILES[edited] + "# edited\n")
    after = hashes(tmp_path)
    assert {name for name in before if before[name] != after[name]} == moved


def test_a_module_elsewhere_is_hashed_where_it_is_found(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    part = [Part(modules=("kernels.norm.one",))]
    absent = checkout.Sources(tmp_path).sha(part)
    (tmp_path / "kernels" / "one.py").write_text("x = 1\n")
    there = checkout.Sources(tmp_path).sha(part)
    (tmp_path / "kernels" / "one.py").write_text("x = 2\n")
    assert len({absent, there, checkout.Sources(tmp_path).sha(part)}) == 3
