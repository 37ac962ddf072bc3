"""FlyDSL's kernels over rows: normalisations with what they are fused with, softmax, routing and the reduction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gate.replay.op import Case, Tensors
from gate.replay.providers.flydsl.checkout import Given, checkout_kernel

FLOATS = ("bf16", "f16", "fp16", "f32", "fp32")
# The launchers' names for the ops' tensors; a launcher takes those that it has.
ROWS = {
    "x": "Input",
    "residual": "ResidualIn",
    "weight": "Gamma",
    "bias": "Beta",
    "smooth": "XScale",
    "out": "Output",
    "residual_out": "ResidualOut",
    "scale": "YScale",
}


def _rows(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    given = {ROWS[name]: value for name, value in tensors.items()}
    scale = given.get("YScale")
    if scale is not None:
        given["YScale"] = scale.view(-1)
    if "XScale" in given:
        given["XScale"] = given["XScale"].float()
    return [{**given, "m_in": case.dim("M")}]


rmsnorm = checkout_kernel(op="rmsnorm", dtypes=FLOATS)(_rows)
layernorm = checkout_kernel(op="layernorm", dtypes=FLOATS)(_rows)
fused_add_rmsnorm = checkout_kernel(op="fused_add_rmsnorm", dtypes=FLOATS)(_rows)
layernorm_fused_add = checkout_kernel(op="layernorm_fused_add", dtypes=FLOATS)(_rows)
rmsnorm_dynamicquant = checkout_kernel(op="rmsnorm_dynamicquant", dtypes=FLOATS)(_rows)
rmsnorm_smoothquant = checkout_kernel(op="rmsnorm_smoothquant", dtypes=FLOATS)(_rows)
rmsnorm_fused_add_dynamicquant = checkout_kernel(op="rmsnorm_fused_add_dynamicquant", dtypes=FLOATS)(_rows)
rmsnorm_fused_add_smoothquant = checkout_kernel(op="rmsnorm_fused_add_smoothquant", dtypes=FLOATS)(_rows)
layernorm_dynamicquant = checkout_kernel(op="layernorm_dynamicquant", dtypes=FLOATS)(_rows)
layernorm_smoothquant = checkout_kernel(op="layernorm_smoothquant", dtypes=FLOATS)(_rows)
layernorm_fused_add_dynamicquant = checkout_kernel(op="layernorm_fused_add_dynamicquant", dtypes=FLOATS)(_rows)
layernorm_fused_add_smoothquant = checkout_kernel(op="layernorm_fused_add_smoothquant", dtypes=FLOATS)(_rows)


@checkout_kernel(op="softmax", dtypes=FLOATS)
def softmax(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    return [{"A": tensors["x"], "C": tensors["out"], "m_in": case.dim("M")}]


@checkout_kernel(op="vec_add", dtypes=FLOATS)
def vec_add(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    return [{"A": tensors["a"], "B": tensors["b"], "C": tensors["out"]}]


@checkout_kernel(op="topk_gating_softmax", dtypes=FLOATS)
def topk_gating_softmax(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    import torch

    given = {
        "GatingOutput": tensors["logits"],
        "TopkWeights": tensors["weights"],
        "TopkIndices": tensors["indices"],
        "TokenExpertIndices": torch.empty_like(tensors["indices"]),
    }
    return [{**given, "num_tokens_in": case.dim("num_tokens")}]


@checkout_kernel(op="moe_reduce", dtypes=FLOATS)
def moe_reduce(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    x, tokens = tensors["x"], case.dim("num_tokens")
    # Without a mask the kernel reads neither of the last two; their addresses must only be valid.
    given = {"X": x, "Y": tensors["out"], "expert_mask": x, "topk_ids": x}
    return [{**given, "i32_m_tokens": tokens, "m_tokens": tokens, "valid_mask": x}]


def _zeroed(case: Case, tensors: Tensors, given: Given) -> list[Callable[[], None] | None]:
    """The sums of the weights are added to."""

    def zero() -> None:
        tensors["dweight"].zero_()

    return [zero]


@checkout_kernel(
    op="rmsnorm_bwd",
    dtypes=FLOATS,
    between=_zeroed,
    detail="one workgroup a row, dweight summed by atomics after zeroing",
)
def rmsnorm_bwd(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    given = {"Input": tensors["x"], "Gamma": tensors["weight"], "DY": tensors["dy"], "DX": tensors["dx"]}
    return [{**given, "Rstd": tensors["rstd"].view(-1), "DWeight": tensors["dweight"], "m_in": case.dim("M")}]
