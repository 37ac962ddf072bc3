"""AITER's matrix products: the entries that choose a backend from AITER's tuning tables."""

from __future__ import annotations

from typing import Any

from gate.replay import layouts
from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import HALVES, aiter_kernel, own_output, shuffled, torch_dtype

BACKENDS = "backend by AITER's tuning table, FlyDSL's own among them (opaque)"


def columns(scale: Any) -> Any:
    """One scale a row as a column, which is how AITER's products take it."""
    return scale.unsqueeze(-1)


@aiter_kernel(
    op="gemm",
    provider="aiter",
    dtypes=HALVES,
    includes_allocation=True,
    detail=f"aiter.tuned_gemm.gemm_a16w16: {BACKENDS}",
)
def gemm(case: Case, tensors: Tensors) -> Launch:
    made = call("aiter.tuned_gemm:gemm_a16w16", A=tensors["a"], B=tensors["b"], otype=torch_dtype(case.dtype))
    return own_output("out", made)


def shuffles(case: Case) -> str | None:
    """Why the weights of a product cannot be shuffled, or None."""
    n, k = case.dim("N"), case.dim("K")
    if n % 16 or k % 64:
        return f"N = {n} and K = {k} must be multiples of 16 and 64: weights are shuffled in such tiles"
    return None


def _preshuffle(case: Case) -> str | None:
    if case.dtype in HALVES:
        return "AITER has no entry for 16-bit products of shuffled weights that Python can ask for"
    return shuffles(case)


@aiter_kernel(
    op="preshuffle_gemm",
    provider="aiter",
    dtypes=("fp8", "int8", "fp4", *HALVES),
    when=_preshuffle,
    includes_allocation=True,
    detail=f"gemm_a8w8_bpreshuffle, gemm_a4w4 for fp4: {BACKENDS}; weights shuffled beforehand",
)
def preshuffle_gemm(case: Case, tensors: Tensors) -> Launch:
    import torch

    if case.dtype == "fp4":
        pairs = torch.float4_e2m1fn_x2
        made = call(
            "aiter.ops.gemm_op_a4w4:gemm_a4w4",
            A=tensors["a"].view(pairs),
            B=shuffled(tensors["b"].view(pairs)),
            A_scale=layouts.shuffled_scales(tensors["scale_a"]),
            B_scale=layouts.shuffled_scales(tensors["scale_b"]),
            dtype=torch.bfloat16,
        )
        rows = case.dim("M")
        return own_output("out", lambda: made()[:rows])
    made = call(
        "aiter.ops.gemm_op_a8w8:gemm_a8w8_bpreshuffle",
        XQ=tensors["a"],
        WQ=shuffled(tensors["b"]),
        x_scale=columns(tensors["scale_a"]),
        w_scale=columns(tensors["scale_b"]),
        dtype=torch.bfloat16,
    )
    return own_output("out", made)


@aiter_kernel(
    op="blockscale_preshuffle_gemm",
    provider="aiter",
    dtypes=("fp8",),
    when=shuffles,
    includes_allocation=True,
    detail=f"gemm_a8w8_blockscale_bpreshuffle: {BACKENDS}; weights shuffled, activation scales transposed beforehand",
)
def blockscale_preshuffle_gemm(case: Case, tensors: Tensors) -> Launch:
    import torch

    scale = tensors["scale_a"]
    made = call(
        "aiter.ops.gemm_op_a8w8:gemm_a8w8_blockscale_bpreshuffle",
        XQ=tensors["a"],
        WQ=shuffled(tensors["b"]),
        x_scale=scale.t().contiguous().view(scale.shape),
        w_scale=tensors["scale_b"],
        dtype=torch.bfloat16,
    )
    return own_output("out", made)
