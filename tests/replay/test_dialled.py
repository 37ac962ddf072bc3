"""The dialled kernels of the seeded benches: each compiles, works behind its own work, and changes no value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.dialled import dialled_source
from tests.needs import needs_triton
from tests.replay.on_cpu import case_for

KERNELS = Path(__file__).resolve().parents[2] / "gate/replay/providers/triton/kernels"
ON_PAPER = (
    # K in one part: this kernel's locks are None.
    case_for("batched_gemm", "bf16", B=16, M=1, N=128, K=512),
    # Many rows: bulk copies, whose output is no pointer.
    case_for("gemm", "bf16", M=512, N=1024, K=1024),
    # Programs without a slot return early.
    case_for("moe_gemm", "fp8", M=5, E=4, TopK=2, Dim1=144, Dim2=160),
    # One of its kernels has no store, only atomics.
    case_for("moe_sorting", "bf16", num_tokens=16, num_experts=8, topk=2, model_dim=64, unit_size=32),
)
VALUES = (
    case_for("gemm", "bf16", M=3, N=40, K=72),
    # K in several parts.
    case_for("gemm", "bf16", M=1, N=24, K=1400),
    case_for("batched_gemm", "int8", B=3, M=9, N=40, K=128),
    case_for("moe_gemm", "fp8", M=5, E=4, TopK=2, Dim1=144, Dim2=160),
    case_for("rmsnorm", "bf16", M=3, N=100),
    case_for("quant", "bf16", M=3, N=100, out_dtype="int8"),
)


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("gemm.py", {"gemm", "gemm_tma", "product", "join"}),
        ("moe_gemm.py", {"gate_up", "down", "sum_topk"}),
        ("routing.py", {"moe_reduce", "topk_gating_softmax", "sorting_clear", "sorting_count", "sorting_place"}),
    ],
)
def test_every_kernel_has_a_dial_and_no_helper_has_one(file: str, names: set[str]) -> None:
    text, found = dialled_source((KERNELS / file).read_text())
    assert set(found) == names
    assert text.count("for dial_round in range(extra)") == len(names)


@needs_triton
def test_every_kind_compiles_and_the_dial_is_behind_all_other_writes(tmp_path: Path) -> None:
    from tests.replay.dialled_on_paper import compiled

    found = dict(zip((case.op_type for case in ON_PAPER), compiled(ON_PAPER, cache=tmp_path), strict=True))
    assert {op: one["error"] for op, one in found.items()} == {case.op_type: "" for case in ON_PAPER}
    kernels = [kernel for one in found.values() for kernel in one["kernels"]]
    assert {"product", "gemm_tma", "gate_up", "down", "sorting_count"} <= {kernel["name"] for kernel in kernels}
    assert [kernel for kernel in kernels if not kernel["loop"] or kernel["behind"] != 1] == []


@needs_triton
def test_values_are_those_of_the_plain_kernels() -> None:
    from tests.replay.dialled_values import differing

    assert differing(VALUES) == [[] for _ in VALUES]
