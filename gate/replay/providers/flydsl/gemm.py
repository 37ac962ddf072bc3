"""FlyDSL's matrix products: 16-bit, weights shuffled beforehand, FP8 with a scale a row, FP4, scales by block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate.replay import layouts
from gate.replay.op import Case, Tensors
from gate.replay.providers.flydsl.checkout import Given, checkout_kernel

SEMAPHORES = 1024


@checkout_kernel(op="gemm", dtypes=("bf16", "f16", "fp16"))
def gemm(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    import torch

    a, out = tensors["a"], tensors["out"]
    zeros = [torch.zeros(SEMAPHORES, dtype=torch.int32, device=a.device) for _ in range(2)]
    given = {"out": out, "a": a, "b": tensors["b"].t(), "bias": torch.empty(0, dtype=a.dtype, device=a.device)}
    # Checkouts up to July 2026 name them otherwise, and take the weights as they lie.
    given |= {"C": out, "A": a, "B": tensors["b"], "BIAS": a, "m": case.dim("M")}
    return [{**given, "semaphore": zeros[0], "signal": zeros[1], "split_k": int(constants.get("split_k", 1))}]


def _fits(case: Case) -> str | None:
    n, k = case.dim("N"), case.dim("K")
    if n % 16 or k % 64:
        return f"N = {n} and K = {k} must be multiples of 16 and 64: weights are shuffled in such tiles"
    return None


@checkout_kernel(
    op="preshuffle_gemm",
    dtypes=("fp8", "int8", "bf16", "f16", "fp16", "fp4"),
    when=_fits,
    detail="weights shuffled beforehand",
)
def preshuffle_gemm(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    import torch

    a, b, out, sizes = tensors["a"], tensors["b"], tensors["out"], (case.dim("M"), case.dim("N"))
    none = torch.empty(1, dtype=torch.float32, device=a.device)
    if case.dtype == "fp4":
        weights, scales = layouts.shuffled_fp4(b), [layouts.shuffled_scales(tensors[f"scale_{x}"]) for x in "ab"]
    else:
        weights, scales = layouts.shuffled(b), [tensors.get(f"scale_{x}", none) for x in "ab"]
    given = {"arg_c": out, "arg_a": a, "arg_b": weights, "arg_scale_a": scales[0], "arg_scale_b": scales[1]}
    bias = torch.empty(1, dtype=out.dtype, device=a.device)
    return [{**given, "arg_bias": bias, "i32_m": sizes[0], "i32_n": sizes[1]}]


@checkout_kernel(op="fp8_gemm_rowscale", dtypes=("fp8",))
def fp8_gemm_rowscale(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    given = {"A": tensors["a"], "B_T": tensors["b"], "C": tensors["out"]}
    scales = {"A_scale": tensors["scale_a"], "B_scale": tensors["scale_b"]}
    return [{**given, **scales, "c_m": case.dim("M"), "c_n": case.dim("N")}]


@checkout_kernel(
    op="blockscale_preshuffle_gemm",
    dtypes=("fp8",),
    when=_fits,
    detail="weights shuffled and activation scales transposed beforehand",
)
def blockscale_preshuffle_gemm(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    given = {"arg_c": tensors["out"], "arg_a": tensors["a"], "arg_b": layouts.shuffled(tensors["b"])}
    scales = {"arg_scale_a": tensors["scale_a"].t().contiguous(), "arg_scale_b": tensors["scale_b"]}
    return [{**given, **scales, "i32_m": case.dim("M"), "i32_n": case.dim("N")}]
