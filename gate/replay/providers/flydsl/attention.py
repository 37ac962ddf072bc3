"""FlyDSL's attention: whole sequences, decoding over a paged or a latent cache, rotary embedding into a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate.binding.families.attention import LATENT_UNITS
from gate.replay.op import Case, Tensors
from gate.replay.providers.flydsl.checkout import Given, checkout_kernel

HALVES = ("bf16", "f16", "fp16")
LANE = 16
# What one work item of the latent decode holds (AITER's scheduler writes the same), and how a whole sequence is told.
ITEM, WHOLE = 8, -1


def _equal_lengths(case: Case) -> str | None:
    if case.dim("seq_q") != case.dim("seq_k"):
        return f"seq_q = {case.dim('seq_q')}, seq_k = {case.dim('seq_k')}: the dense kernels take equal lengths"
    return None


@checkout_kernel(op="flash_attn", dtypes=(*HALVES, "fp8"), when=_equal_lengths)
def flash_attn(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    import torch

    q, k, v, out = (tensors[name] for name in ("q", "k", "v", "out"))
    sizes = {"batch_size": case.dim("batch"), "seq_len": case.dim("seq_q"), "seq_len_q": case.dim("seq_q")}
    given = {"Q": q, "K": k, "V": v, "O": out, "Out": out, **sizes}
    if constants["kernel"] == "swa":
        strides = {
            f"{name}_stride1": int(tensor.stride(1)) for name, tensor in zip("QKVO", (q, k, v, out), strict=True)
        }
        return [{**given, **strides, "seq_len_kv": case.dim("seq_k")}]
    if case.dtype == "fp8":
        one = torch.ones(1, dtype=torch.float32, device=q.device)
        given |= {"q_descale": one, "k_descale": one, "v_descale": one}
    return [given]


def _whole_context(case: Case) -> str | None:
    if case.args.get("window"):
        return "the sliding-window kernel is compiled by the gate, its launch is not bound"
    return None


@checkout_kernel(
    op="pa_decode",
    dtypes=("fp8",),
    when=_whole_context,
    detail="values laid out as (pages, kv_heads, block_size / 16, D, 16) beforehand; the reduction is timed",
)
def pa_decode(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    import torch

    q, out, values = tensors["q"].flatten(0, 1), tensors["out"].flatten(0, 1), tensors["value_cache"]
    batch, groups, width = case.dim("batch"), case.dim("kv_heads"), case.dim("dim_v")
    rows, parts = case.dim("seq_q") * (case.dim("heads") // groups), int(constants["num_partitions"])
    largest, sums = (torch.empty((batch, groups, parts, rows), dtype=torch.float32, device=q.device) for _ in range(2))
    partial = torch.empty((*largest.shape, width), dtype=q.dtype, device=q.device)
    values = values.unflatten(-1, (-1, LANE)).movedim(-2, -3).contiguous()
    first = {
        "output": out,
        "pmax": largest.view(-1),
        "psum": sums.view(-1),
        "pout": partial.view(-1),
        "query": q,
        "key_cache": tensors["key_cache"],
        "value_cache": values,
        "block_tables": tensors["block_tables"],
        "context_lengths": tensors["context_lens"],
        "key_scale": tensors["key_scale"],
        "value_scale": tensors["value_scale"],
        "max_blocks_per_seq": int(tensors["block_tables"].shape[1]),
        "num_seqs": batch,
        "num_kv_heads": groups,
        "stride_ks_block": 0,
        "stride_ks_head": 0,
        "stride_q_row": int(q.stride(0)),
        "stride_q_head": int(q.stride(1)),
    }
    return [first, _reduction(case, out, largest, sums, partial)]


def _reduction(case: Case, out: Any, largest: Any, sums: Any, partial: Any) -> dict[str, Any]:
    """What the reduction over the partitions is given; out is (batch x seq_q, heads, D)."""
    groups = case.dim("kv_heads")
    return {
        "output": out,
        "exp_sums": sums,
        "max_logits": largest,
        "logits": partial,
        "stride_output_bs": case.dim("seq_q") * out.stride(0),
        "stride_output_len": out.stride(0),
        "stride_output_kv_head": case.dim("heads") // groups * out.stride(1),
        "stride_output_group_size": out.stride(1),
        **{f"stride_exp_sums_{name}": largest.stride(i) for i, name in enumerate(("seq", "head", "part"))},
        **{f"stride_logits_{name}": partial.stride(i) for i, name in enumerate(("seq", "head", "part", "group"))},
        "batch_size": case.dim("batch"),
        "num_kv_heads": groups,
    }


def _whole_sequences(case: Case, units: int, indptr: Any) -> tuple[Any, Any]:
    """Work of `units` compute units where each sequence is one item and nothing is left to reduce.

    An item is (sequence, no partial result, its query's start and end, its keys' start and end, 0, 0).
    """
    import torch

    batch, keys = case.dim("batch"), case.dim("seq_k")
    ends = torch.arange(1, units + 1, dtype=torch.int64) * batch // units
    items = torch.zeros((batch, ITEM), dtype=torch.int32)
    order = torch.arange(batch, dtype=torch.int32)
    for column, value in enumerate((order, torch.full_like(order, WHOLE), order, order + 1, order * keys)):
        items[:, column] = value
    items[:, 5] = (order + 1) * keys
    starts = torch.cat((torch.zeros(1, dtype=torch.int64), ends)).int()
    return starts.to(indptr.device), items.to(indptr.device)


@checkout_kernel(
    op="mla_decode",
    dtypes=("fp8",),
    detail="one work item a sequence, made beforehand: nothing is split, so small batches leave compute units idle",
)
def mla_decode(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    import torch

    q, out, heads = tensors["q"], tensors["out"], case.dim("heads")
    starts, items = _whole_sequences(case, LATENT_UNITS, tensors["kv_indptr"])
    partial = torch.empty((heads, case.dim("dim_v")), dtype=torch.float32, device=q.device)
    given = {
        "query": q.flatten(0, 1),
        "kv_buffer": tensors["cache"].view(-1, case.dim("dim_qk")),
        "kv_page_indices": tensors["kv_indices"],
        "work_indptr": starts,
        "work_info_set": items.view(-1),
        "final_output": out.flatten(0, 1),
        "split_output": partial,
        "split_lse": torch.empty(heads, dtype=torch.float32, device=q.device),
        "softmax_scale": float(case.dim("dim_qk") ** -0.5),
    }
    return [given]


@checkout_kernel(op="fused_rope_cache", dtypes=HALVES)
def fused_rope_cache(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    import torch

    one = torch.ones(1, dtype=torch.float32, device=tensors["q"].device)
    narrow = bool(case.args.get("apply_scale"))
    caches = {f"{name}Cache": tensors[f"{name.lower()}_cache"] for name in ("Key", "Value")}
    given = {
        "Q": tensors["q"],
        "K": tensors["k"],
        "V": tensors["v"],
        "Positions": tensors["positions"],
        "CosCache": tensors["cos"],
        "SinCache": tensors["sin"],
        "SlotMapping": tensors["slots"],
        **{name: cache.view(torch.uint8) if narrow else cache for name, cache in caches.items()},
        "Q_out": tensors["q_out"],
        "K_out": tensors["k_out"],
        "num_tokens": case.dim("seq_len"),
        "KScale": tensors.get("k_scale", one),
        "VScale": tensors.get("v_scale", one),
    }
    return [given]
