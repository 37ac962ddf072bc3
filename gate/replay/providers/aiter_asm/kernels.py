"""Assembly kernels of AITER that have a Python entry of their own; the entry chooses the kernel's variant."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.common import aiter_kernel, shuffled, writes
from gate.replay.providers.aiter.gemm import columns, shuffles

LANE = 16
EXPERTS = (128, 256)


@aiter_kernel(op="gemm", provider="aiter_asm", dtypes=("bf16",), detail="gemm_a16w16_asm, variant by its own rule")
def gemm(case: Case, tensors: Tensors) -> Launch:
    made = call("aiter.ops.gemm_op_a16w16:gemm_a16w16_asm", A=tensors["a"], B=tensors["b"], out=tensors["out"])
    return writes(made)


@aiter_kernel(
    op="preshuffle_gemm",
    provider="aiter_asm",
    dtypes=("int8",),
    when=shuffles,
    detail="gemm_a8w8_asm, variant by its own rule; weights shuffled beforehand, a bias of zeros",
)
def preshuffle_gemm(case: Case, tensors: Tensors) -> Launch:
    import torch

    b = tensors["b"]
    made = call(
        "aiter.ops.gemm_op_a8w8:gemm_a8w8_asm",
        XQ=tensors["a"],
        WQ=shuffled(b),
        x_scale=columns(tensors["scale_a"]),
        w_scale=columns(tensors["scale_b"]),
        Out=tensors["out"],
        bias=torch.zeros((1, case.dim("N")), dtype=torch.float32, device=b.device),
        splitK=1,
    )
    return writes(made)


@aiter_kernel(
    op="blockscale_preshuffle_gemm",
    provider="aiter_asm",
    dtypes=("fp8",),
    when=shuffles,
    detail="gemm_a8w8_blockscale_bpreshuffle_asm, variant by its own rule; weights shuffled, activation scales "
    "transposed beforehand",
)
def blockscale_preshuffle_gemm(case: Case, tensors: Tensors) -> Launch:
    scale = tensors["scale_a"]
    made = call(
        "aiter.ops.gemm_op_a8w8:gemm_a8w8_blockscale_bpreshuffle_asm",
        A=tensors["a"],
        B=shuffled(tensors["b"]),
        out=tensors["out"],
        A_scale=scale.t().contiguous().view(scale.shape),
        B_scale=tensors["scale_b"],
    )
    return writes(made)


def _paged(case: Case) -> str | None:
    if case.args.get("window"):
        return "the assembly kernel of paged decode has no sliding window"
    if case.dim("seq_q") != 1 or case.dim("block_size") != LANE or case.dim("dim_qk") != 128:
        return "the assembly kernel is written for one query a sequence, pages of 16 and heads of 128"
    return None


@aiter_kernel(
    op="pa_decode",
    provider="aiter_asm",
    dtypes=("fp8",),
    when=_paged,
    detail="pa_fwd_asm with one scale for keys and for values, spread over the tokens beforehand; values laid out as "
    "(pages, kv_heads, block_size / 16, D, 16) beforehand",
)
def pa_decode(case: Case, tensors: Tensors) -> Launch:
    keys, values, table = tensors["key_cache"], tensors["value_cache"], tensors["block_tables"]
    pages, groups, block = keys.shape[0], case.dim("kv_heads"), case.dim("block_size")
    made = call(
        "aiter.ops.attention:pa_fwd_asm",
        Q=tensors["q"].flatten(0, 1),
        K=keys,
        V=values.unflatten(-1, (-1, LANE)).movedim(-2, -3).contiguous(),
        block_tables=table,
        context_lens=tensors["context_lens"],
        block_tables_stride0=int(table.stride(0)),
        K_QScale=tensors["key_scale"].expand(pages, groups, block).contiguous(),
        V_QScale=tensors["value_scale"].expand(pages, groups, block).contiguous(),
        out_=tensors["out"].flatten(0, 1),
    )
    return writes(made)


def _experts(case: Case) -> str | None:
    if case.dim("num_experts") not in EXPERTS:
        return f"num_experts = {case.dim('num_experts')}: the assembly kernels are for {EXPERTS}"
    return None


@aiter_kernel(
    op="topk_gating_softmax",
    provider="aiter_asm",
    dtypes=("bf16", "f32", "fp32"),
    when=_experts,
    detail="topk_softmax_asm",
)
def topk_gating_softmax(case: Case, tensors: Tensors) -> Launch:
    import torch

    made = call(
        "aiter.ops.moe_op:topk_softmax_asm",
        topk_weights=tensors["weights"],
        topk_indices=tensors["indices"],
        token_expert_indices=torch.empty_like(tensors["indices"]),
        gating_output=tensors["logits"],
        need_renorm=True,
    )
    return writes(made)
