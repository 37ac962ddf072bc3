"""torch.compile as a variant of PyTorch's kernels: found by op, compiled once a shape, right on the CPU."""

from __future__ import annotations

import shutil

import pytest

from gate.replay.provider import NoKernel, load_entrypoint
from tests.replay.on_cpu import case_for, judged

pytest.importorskip("torch")
MODULE = "gate.replay.providers.pytorch_compiled"
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles C++ for the CPU")


def test_every_op_of_pytorch_has_one() -> None:
    from gate.replay.provider import kernels_of
    from gate.replay.providers import pytorch

    for op, eager in kernels_of(pytorch).items():
        adapter = load_entrypoint(f"{MODULE}:{op}", op)
        assert adapter.provider == "pytorch" and adapter.includes_allocation == eager.includes_allocation
        assert not adapter.includes_jit
    told = adapter.describe(case_for("softmax", "bf16", M=1, N=8))
    assert told.startswith("torch.compile(mode='max-autotune-no-cudagraphs', dynamic=False) of ")


def test_what_the_eager_kernel_does_beforehand_is_told_as_part_of_the_call() -> None:
    case = case_for("preshuffle_gemm", "fp8", M=4, N=24, K=40)
    adapter = load_entrypoint(f"{MODULE}:preshuffle_gemm", "preshuffle_gemm")
    assert "weights made bf16 in the call" in adapter.describe(case) and adapter.converts_layout(case)
    plain = case_for("gemm", "bf16", M=4, N=24, K=40)
    assert not load_entrypoint(f"{MODULE}:gemm", "gemm").converts_layout(plain)


def test_an_op_that_pytorch_lacks_is_no_kernel() -> None:
    with pytest.raises(NoKernel, match="no attribute nonesuch"):
        load_entrypoint(f"{MODULE}:nonesuch", "nonesuch")
    with pytest.raises(NoKernel, match="no nonesuch kernel"):
        load_entrypoint(f"{MODULE}:get_adapter", "nonesuch")


def test_it_refuses_what_the_eager_kernel_refuses() -> None:
    adapter = load_entrypoint(f"{MODULE}:quant", "quant")
    assert "quant takes" in str(adapter.supports(case_for("quant", "fp8", M=1, N=8)))


@needs_compiler
def test_a_code_and_a_given_output_come_out_right() -> None:
    """Several operators that become one, and one that writes what it was given; ring copies share what is compiled."""
    import torch

    for case in (case_for("quant", "bf16", M=5, N=100, out_dtype="int8"), case_for("vec_add", "bf16", N=1001)):
        torch._dynamo.utils.counters.clear()
        assert judged(f"{MODULE}:{case.op_type}", case, copies=3) == []
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
