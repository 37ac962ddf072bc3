"""AITER's Triton matrix products, with the tiles of AITER's own configurations."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import HALVES, aiter_kernel, torch_dtype, writes


@aiter_kernel(op="gemm", provider="aiter_triton", dtypes=HALVES, detail="gemm.basic.gemm_a16w16")
def gemm(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.gemm.basic.gemm_a16w16:gemm_a16w16",
        "aiter.ops.triton.gemm_a16w16:gemm_a16w16",
        x=tensors["a"],
        w=tensors["b"],
        dtype=torch_dtype(case.dtype),
        y=tensors["out"],
    )
    return writes(made)


@aiter_kernel(
    op="preshuffle_gemm",
    provider="aiter_triton",
    dtypes=("fp4",),
    detail="gemm.basic.gemm_afp4wfp4 on weights as they arrive",
)
def preshuffle_gemm(case: Case, tensors: Tensors) -> Launch:
    import torch

    made = call(
        "aiter.ops.triton.gemm.basic.gemm_afp4wfp4:gemm_afp4wfp4",
        "aiter.ops.triton.gemm_afp4wfp4:gemm_afp4wfp4",
        x=tensors["a"],
        w=tensors["b"],
        x_scales=tensors["scale_a"],
        w_scales=tensors["scale_b"],
        dtype=torch.bfloat16,
        y=tensors["out"],
    )
    return writes(made)


@aiter_kernel(
    op="fp8_gemm_rowscale",
    provider="aiter_triton",
    dtypes=("fp8",),
    detail="gemm.basic.gemm_a8w8_per_token_scale",
)
def fp8_gemm_rowscale(case: Case, tensors: Tensors) -> Launch:
    import torch

    made = call(
        "aiter.ops.triton.gemm.basic.gemm_a8w8_per_token_scale:gemm_a8w8_per_token_scale",
        "aiter.ops.triton.gemm_a8w8_per_token_scale:gemm_a8w8_per_token_scale",
        x=tensors["a"],
        w=tensors["b"],
        x_scale=tensors["scale_a"].unsqueeze(-1),
        w_scale=tensors["scale_b"].unsqueeze(-1),
        dtype=torch.bfloat16,
        y=tensors["out"],
    )
    return writes(made)


@aiter_kernel(
    op="blockscale_preshuffle_gemm",
    provider="aiter_triton",
    dtypes=("fp8",),
    detail="gemm.basic.gemm_a8w8_blockscale on weights as they arrive",
)
def blockscale_preshuffle_gemm(case: Case, tensors: Tensors) -> Launch:
    import torch

    made = call(
        "aiter.ops.triton.gemm.basic.gemm_a8w8_blockscale:gemm_a8w8_blockscale",
        "aiter.ops.triton.gemm_a8w8_blockscale:gemm_a8w8_blockscale",
        x=tensors["a"],
        w=tensors["b"],
        x_scale=tensors["scale_a"],
        w_scale=tensors["scale_b"],
        dtype=torch.bfloat16,
        y=tensors["out"],
    )
    return writes(made)


@aiter_kernel(op="batched_gemm", provider="aiter_triton", dtypes=("bf16",), detail="gemm.batched.batched_gemm_bf16")
def batched_gemm(case: Case, tensors: Tensors) -> Launch:
    import torch

    made = call(
        "aiter.ops.triton.gemm.batched.batched_gemm_bf16:batched_gemm_bf16",
        "aiter.ops.triton.batched_gemm_bf16:batched_gemm_bf16",
        XQ=tensors["a"],
        WQ=tensors["b"],
        dtype=torch.bfloat16,
        YQ=tensors["out"],
    )
    return writes(made)
