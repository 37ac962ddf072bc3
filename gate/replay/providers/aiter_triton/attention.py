"""AITER's Triton attention: whole sequences, and decoding over a paged or a latent cache; rotary embedding."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.attention import scale_of, token_major, window_of
from gate.replay.providers.aiter.common import HALVES, aiter_kernel, own_output, writes


@aiter_kernel(
    op="flash_attn",
    provider="aiter_triton",
    dtypes=HALVES,
    includes_allocation=True,
    detail="attention.mha.flash_attn_func",
)
def flash_attn(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.attention.mha:flash_attn_func",
        "aiter.ops.triton.mha:flash_attn_func",
        q=tensors["q"],
        k=tensors["k"],
        v=tensors["v"],
        softmax_scale=scale_of(case),
        causal=bool(case.args.get("causal", True)),
        # The kernel takes a limit to the left alone; what lies to the right is hidden by `causal`.
        window_size=(window_of(case)[0], -1),
    )
    return own_output("out", made)


def _paged(case: Case) -> str | None:
    if case.args.get("window"):
        return "AITER's Triton paged decode has no sliding window"
    if case.dim("seq_q") != 1:
        return f"seq_q = {case.dim('seq_q')}: the kernel takes one query a sequence"
    return None


@aiter_kernel(
    op="pa_decode",
    provider="aiter_triton",
    dtypes=("bf16", "f16", "fp8"),
    when=_paged,
    # Partitions of a long context have partial results.
    includes_allocation=True,
    detail="attention.pa_decode.paged_attention_decode, one pass or partitions by context length; cache laid out as "
    "(pages, kv_heads, block_size, D) beforehand",
)
def pa_decode(case: Case, tensors: Tensors) -> Launch:
    import triton.language as tl

    made = call(
        "aiter.ops.triton.attention.pa_decode:paged_attention_decode",
        "aiter.ops.triton.pa_decode:paged_attention_decode",
        output=tensors["out"].flatten(0, 1),
        query=tensors["q"].flatten(0, 1),
        key_cache=token_major(tensors["key_cache"], keys=True),
        value_cache=token_major(tensors["value_cache"], keys=False),
        seq_lens=tensors["context_lens"],
        block_tables=tensors["block_tables"],
        attn_scale=scale_of(case),
        max_seq_len=case.dim("seq_k"),
        compute_type=tl.float16 if case.dtype in ("f16", "fp16") else tl.bfloat16,
        k_scale=tensors["key_scale"],
        v_scale=tensors["value_scale"],
    )
    return writes(made)


@aiter_kernel(
    op="mla_decode",
    provider="aiter_triton",
    dtypes=("bf16", "fp8"),
    includes_allocation=True,
    detail="attention.mla.mla_decode_fwd, split over the context and a reduction; pages of one token",
)
def mla_decode(case: Case, tensors: Tensors) -> Launch:
    import torch

    q, batch, keys = tensors["q"], case.dim("batch"), case.dim("seq_k")
    one = torch.ones(1, dtype=torch.float32, device=q.device) if case.dtype == "fp8" else None
    made = call(
        "aiter.ops.triton.attention.mla:mla_decode_fwd",
        q=q,
        kv_buffer=tensors["cache"],
        out=tensors["out"],
        cu_seqlens_q=torch.arange(batch + 1, dtype=torch.int32, device=q.device),
        seqused_k=torch.full((batch,), keys, dtype=torch.int32, device=q.device),
        max_seqlen_kv=keys,
        block_tables=tensors["kv_indices"].view(batch, keys),
        softmax_scale=scale_of(case),
        kv_lora_rank=case.dim("dim_v"),
        qk_rope_head_dim=case.dim("dim_qk") - case.dim("dim_v"),
        causal=True,
        q_descale=one,
        kv_descale=one,
    )
    return writes(made)


def _rotary(case: Case) -> str | None:
    heads, kv_heads = case.dim("num_heads"), case.dim("num_kv_heads")
    if heads % kv_heads:
        return f"num_heads = {heads} is no multiple of num_kv_heads = {kv_heads}"
    if not case.args.get("apply_scale") and case.dtype != "bf16":
        return f"the cache of the kernel is bf16, fp8 or packed fp4, not {case.dtype}"
    if not case.args.get("flash_layout", True) and not case.args.get("apply_scale"):
        return "the packed layout of the kernel holds 16 fp8 or 8 bf16 values, this op's holds 16"
    return None


@aiter_kernel(
    op="fused_rope_cache",
    provider="aiter_triton",
    dtypes=("bf16",),
    when=_rotary,
    detail="fusions.fused_kv_cache.fused_qk_rope_reshape_and_cache",
)
def fused_rope_cache(case: Case, tensors: Tensors) -> Launch:
    made = call(
        "aiter.ops.triton.fusions.fused_kv_cache:fused_qk_rope_reshape_and_cache",
        "aiter.ops.triton.fused_kv_cache:fused_qk_rope_reshape_and_cache",
        q=tensors["q"],
        k=tensors["k"],
        v=tensors["v"],
        key_cache=tensors["key_cache"],
        value_cache=tensors["value_cache"],
        slot_mapping=tensors["slots"],
        pos=tensors["positions"],
        cos=tensors["cos"],
        sin=tensors["sin"],
        k_scale=tensors.get("k_scale"),
        v_scale=tensors.get("v_scale"),
        is_neox=case.args.get("rotate_style", "neox") == "neox",
        flash_layout=bool(case.args.get("flash_layout", True)),
        apply_scale=bool(case.args.get("apply_scale")),
        q_out=tensors["q_out"],
        k_out=tensors["k_out"],
        output_zeros=False,
    )
    return writes(made)
