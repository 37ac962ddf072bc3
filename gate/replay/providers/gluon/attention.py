"""AITER's Gluon kernels of attention."""

from __future__ import annotations

from gate.replay.call import call
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.aiter.attention import scale_of
from gate.replay.providers.aiter.common import aiter_kernel, writes

PARTITION = 256
MOST_QUERIES, MOST_ROWS = 4, 64
BLOCKS = (16, 64, 1024)


def _paged(case: Case) -> str | None:
    queries, rows = case.dim("seq_q"), case.dim("seq_q") * (case.dim("heads") // case.dim("kv_heads"))
    if queries > MOST_QUERIES:
        return f"query_length == {queries} exceeds maximum of {MOST_QUERIES}"
    if rows > MOST_ROWS:
        return f"equivalent_query_group_size={rows} exceeds maximum of {MOST_ROWS}"
    if case.dim("block_size") not in BLOCKS:
        return f"block_size {case.dim('block_size')}: the kernel is written for {', '.join(map(str, BLOCKS))}"
    if case.args.get("window"):
        return "with a sliding window the kernel counts keys otherwise than this op"
    if case.dtype != "fp8":
        return f"a {case.dtype} cache of this kernel packs 8 values, this op's packs 16"
    return None


@aiter_kernel(
    op="pa_decode",
    provider="gluon",
    dtypes=("fp8", "bf16", "f16"),
    when=_paged,
    detail=f"aiter.ops.triton.gluon.pa_decode_gluon, partitions of {PARTITION} keys and a reduction",
)
def pa_decode(case: Case, tensors: Tensors) -> Launch:
    import torch

    q, out = tensors["q"].flatten(0, 1), tensors["out"].flatten(0, 1)
    parts, groups = -(-case.dim("seq_k") // PARTITION), case.dim("kv_heads")
    rows = case.dim("seq_q") * (case.dim("heads") // groups)
    partial = (case.dim("batch"), groups, parts, rows)
    sums, largest = (torch.empty(partial, dtype=torch.float32, device=q.device) for _ in range(2))
    made = call(
        "aiter.ops.triton.gluon.pa_decode_gluon:pa_decode_gluon",
        output=out,
        query=q,
        key_cache=tensors["key_cache"],
        value_cache=tensors["value_cache"],
        context_lengths=tensors["context_lens"],
        block_tables=tensors["block_tables"],
        softmax_scale=scale_of(case),
        query_length=case.dim("seq_q"),
        max_context_partition_num=parts,
        context_partition_size=PARTITION,
        compute_type=tensors["key_cache"].dtype,
        query_scale=None,
        key_scale=tensors["key_scale"],
        value_scale=tensors["value_scale"],
        exp_sums=sums,
        max_logits=largest,
        temporary_output=torch.empty(*partial, case.dim("dim_v"), dtype=q.dtype, device=q.device),
        ps=False,
    )
    return writes(made)
