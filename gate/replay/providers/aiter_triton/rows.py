"""AITER's Triton kernels over rows, beside the normalisations."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import FLOATS, HALVES, aiter_kernel, own_output, writes


@aiter_kernel(op="softmax", provider="aiter_triton", dtypes=FLOATS, includes_allocation=True, detail="softmax")
def softmax(case: Case, tensors: Tensors) -> Launch:
    return own_output("out", call("aiter.ops.triton.softmax:softmax", x=tensors["x"]))


@aiter_kernel(op="quant", provider="aiter_triton", dtypes=HALVES, detail="quant.dynamic_per_token_quant_fp8_i8")
def quant(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.quant.quant:dynamic_per_token_quant_fp8_i8",
        "aiter.ops.triton.quant:dynamic_per_token_quant_fp8_i8",
        qx=tensors["out"],
        x_in=tensors["x"],
        scale_out=tensors["scale"],
    )
    return writes(made)


@aiter_kernel(
    op="topk_gating_softmax",
    provider="aiter_triton",
    dtypes=FLOATS,
    includes_allocation=True,
    detail="aiter.ops.triton.topk, then torch.softmax over the topk",
)
def topk_gating_softmax(case: Case, tensors: Tensors) -> Launch:
    import torch

    logits, weights, indices = tensors["logits"], tensors["weights"], tensors["indices"]
    largest = call("aiter.ops.triton.topk:topk", x=logits, k=case.dim("topk"))

    def launch() -> None:
        # The softmax of the largest alone is the renormalised softmax: the other exponentials cancel.
        values, where = largest()
        torch.softmax(values.float(), -1, out=weights)
        indices.copy_(where)

    return launch
