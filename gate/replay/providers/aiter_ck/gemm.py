"""Products that AITER always hands to Composable Kernel."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import aiter_kernel, shuffled, writes
from gate.replay.providers.aiter.gemm import columns, shuffles

OWN = "Composable Kernel's own choice of instance"


@aiter_kernel(
    op="preshuffle_gemm",
    provider="aiter_ck",
    dtypes=("fp8", "int8"),
    when=shuffles,
    detail=f"gemm_a8w8_bpreshuffle_ck, {OWN}; weights shuffled beforehand",
)
def preshuffle_gemm(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.gemm_op_a8w8:gemm_a8w8_bpreshuffle_ck",
        XQ=tensors["a"],
        WQ=shuffled(tensors["b"]),
        x_scale=columns(tensors["scale_a"]),
        w_scale=columns(tensors["scale_b"]),
        Out=tensors["out"],
    )
    return writes(made)


@aiter_kernel(op="fp8_gemm_rowscale", provider="aiter_ck", dtypes=("fp8",), detail=f"gemm_a8w8_ck, {OWN}")
def fp8_gemm_rowscale(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.gemm_op_a8w8:gemm_a8w8_ck",
        XQ=tensors["a"],
        WQ=tensors["b"],
        x_scale=columns(tensors["scale_a"]),
        w_scale=columns(tensors["scale_b"]),
        Out=tensors["out"],
    )
    return writes(made)


@aiter_kernel(
    op="blockscale_preshuffle_gemm",
    provider="aiter_ck",
    dtypes=("fp8",),
    when=shuffles,
    detail=f"gemm_a8w8_blockscale_bpreshuffle_ck, {OWN}; weights shuffled, activation scales transposed beforehand",
)
def blockscale_preshuffle_gemm(case: Case, tensors: Tensors) -> Launch:
    scale = tensors["scale_a"]
    made = call(
        "aiter.ops.gemm_op_a8w8:gemm_a8w8_blockscale_bpreshuffle_ck",
        XQ=tensors["a"],
        WQ=shuffled(tensors["b"]),
        x_scale=scale.t().contiguous().view(scale.shape),
        w_scale=tensors["scale_b"],
        Out=tensors["out"],
    )
    return writes(made)


@aiter_kernel(op="batched_gemm", provider="aiter_ck", dtypes=("bf16", "int8"), detail=f"batched_gemm_bf16, {OWN}")
def batched_gemm(case: Case, tensors: Tensors) -> Launch:
    if case.dtype == "int8":
        made = call(
            "aiter.ops.batched_gemm_op_a8w8:batched_gemm_a8w8",
            XQ=tensors["a"],
            WQ=tensors["b"],
            x_scale=tensors["scale_a"].unsqueeze(-1),
            w_scale=tensors["scale_b"].unsqueeze(-2),
            out=tensors["out"],
        )
        return writes(made)
    made = call(
        "aiter.ops.batched_gemm_op_bf16:batched_gemm_bf16", XQ=tensors["a"], WQ=tensors["b"], out=tensors["out"]
    )
    return writes(made)
