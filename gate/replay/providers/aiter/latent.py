"""AITER's decode over a latent cache, called as SGLang calls it: its scheduler's work list made before the clock.

SGLang makes the list once a step, for all layers. Where it makes none, and for 8 heads, whose queries SGLang repeats to
16 although AITER has kernels of 8, AITER splits each sequence by its own rule.
"""

from __future__ import annotations

from typing import Any

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.attention import scale_of
from gate.replay.providers.aiter.common import aiter_kernel, writes

HEADS = (8, 16, 32, 64, 128)
# Which heads have a work list. For those in INSIDE it splits every sequence in equally many parts.
LISTED = {"fp8": (16, 32, 64, 128), "bf16": (32, 64)}
INSIDE = (16,)
MOST_SPLITS = 64
# As many heads are all of a model's: each GPU then has whole sequences, which fill it together.
ALL_HEADS = 128
Work = tuple[Any, Any, Any, Any, Any, Any]


def most_splits(heads: int, batch: int, units: int) -> int:
    """In how many parts a sequence may be split on a GPU of so many compute units."""
    return min(-(-units // batch), MOST_SPLITS) if heads >= ALL_HEADS else MOST_SPLITS


def _splits(case: Case) -> int | None:
    if case.dim("heads") not in LISTED[case.dtype]:
        return None
    units = int(call("aiter.jit.utils.chip_info:get_cu_num")())
    return most_splits(case.dim("heads"), case.dim("batch"), units)


def _work(case: Case, tensors: Tensors, *, queries: Any, pages: Any, splits: int) -> Work:
    """The work list and how its parts are put together, filled by AITER's scheduler on the device."""
    import torch

    heads, kinds = case.dim("heads"), (tensors["q"].dtype, tensors["cache"].dtype)
    inside = heads in INSIDE
    sizes = call(
        "aiter.ops.attention:get_mla_metadata_info_v1",
        batch_size=case.dim("batch"),
        max_seqlen_qo=1,
        num_head_qo=heads,
        q_dtype=kinds[0],
        kv_dtype=kinds[1],
        is_sparse=False,
        fast_mode=not inside,
        num_kv_splits=splits,
        intra_batch_mode=inside,
    )()
    lists = [torch.empty(size, dtype=dtype, device=queries.device) for size, dtype in sizes]
    call(
        "aiter.ops.attention:get_mla_metadata_v1",
        seqlens_qo_indptr=queries,
        seqlens_kv_indptr=tensors["kv_indptr"],
        kv_last_page_lens=pages,
        num_heads_per_head_k=heads,
        num_heads_k=1,
        is_causal=False,
        work_metadata_ptrs=lists[0],
        work_indptr=lists[1],
        work_info_set=lists[2],
        reduce_indptr=lists[3],
        reduce_final_map=lists[4],
        reduce_partial_map=lists[5],
        # AITER's kernel of 64 heads in fp8 takes 32 keys at a time.
        kv_granularity=32 if heads == 64 and case.dtype == "fp8" else 16,
        max_seqlen_qo=1,
        uni_seqlen_qo=1,
        fast_mode=not inside,
        max_split_per_batch=splits,
        intra_batch_mode=inside,
        dtype_q=kinds[0],
        dtype_kv=kinds[1],
    )()
    return lists[0], lists[1], lists[2], lists[3], lists[4], lists[5]


def _built(case: Case) -> str | None:
    heads = case.dim("heads")
    if heads not in HEADS:
        return f"heads = {heads}: AITER's latent decode is built for {', '.join(map(str, HEADS))}"
    return None


def _branch(case: Case) -> str:
    listed = case.dim("heads") in LISTED[case.dtype]
    rule = (
        "over its scheduler's work list, made beforehand" if listed else "without a work list, splits by its own rule"
    )
    return f"aiter.mla.mla_decode_fwd {rule}: kernel by heads and dtype (opaque), reduction; it allocates its parts"


@aiter_kernel(
    op="mla_decode",
    provider="aiter",
    dtypes=tuple(LISTED),
    when=_built,
    includes_allocation=True,
    branch=_branch,
)
def mla_decode(case: Case, tensors: Tensors) -> Launch:
    import torch

    q, batch, splits = tensors["q"], case.dim("batch"), _splits(case)
    queries = torch.arange(batch + 1, dtype=torch.int32, device=q.device)
    pages = torch.ones(batch, dtype=torch.int32, device=q.device)
    one = torch.ones(1, dtype=torch.float32, device=q.device) if case.dtype == "fp8" else None
    work: Any = (None,) * 6
    if splits is not None:
        work = _work(case, tensors, queries=queries, pages=pages, splits=splits)
    made = call(
        "aiter.mla:mla_decode_fwd",
        q=q,
        kv_buffer=tensors["cache"],
        o=tensors["out"],
        qo_indptr=queries,
        kv_indptr=tensors["kv_indptr"],
        kv_indices=tensors["kv_indices"],
        kv_last_page_lens=pages,
        max_seqlen_q=1,
        sm_scale=scale_of(case),
        num_kv_splits=splits,
        work_meta_data=work[0],
        work_indptr=work[1],
        work_info_set=work[2],
        reduce_indptr=work[3],
        reduce_final_map=work[4],
        reduce_partial_map=work[5],
        q_scale=one,
        kv_scale=one,
        intra_batch_mode=splits is not None and case.dim("heads") in INSIDE,
    )
    return writes(made)
