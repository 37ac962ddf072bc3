"""Decoding over a paged cache: by tiles, with a sliding window, or from a work list that a scheduler makes."""

from __future__ import annotations

from gate.binding.families.kernel import ROWS, Constexpr, Constexprs, Kernel, Part, Tensor

BLOCKS = 32
ONE: Tensor = ["f32", [1]]
SLIDING = ("kernels.attention.pa_decode_swa",)


def _sliding(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """Sliding-window decode: the partitions and the reduction that follows them, as one op."""
    values = {**constexprs, "query_input_dtype": dtype, "softmax_scale": int(constexprs["head_dim"]) ** -0.5}
    return (
        Part(modules=SLIDING, builders=("compile_pa_decode_sw",), values=values),
        _reduction(dtype, constexprs, partitions="max_context_partition_num"),
    )


def _reduction(dtype: str, constexprs: Constexprs, *, partitions: str, **offers: str) -> Part:
    """The reduction over the partitions, whose number is compiled in under the name `partitions`."""
    values = {
        "max_context_partition_num": constexprs[partitions],
        "query_seq_len": constexprs["query_length"],
        "query_group_size": constexprs["query_group_size"],
        "head_size": constexprs["head_dim"],
        "output_dtype_str": dtype,
    }
    return Part(modules=SLIDING, builders=("compile_pa_decode_sw_reduce",), values=values, offers=dict(offers))


def _tile(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """Paged decode by partitions of the context and the reduction that follows it, as one op."""
    c = constexprs
    kv_heads, width, block = 8, int(c["head_dim"]), int(c["block_size"])
    heads = kv_heads * int(c["query_group_size"])
    value = [BLOCKS, kv_heads, block // 16, width, 16] if c["trans_v"] else [BLOCKS, kv_heads, width, block]
    scale = ["f32", [BLOCKS, kv_heads, block]] if c["per_token_kv"] else ONE
    tensors: dict[str, Tensor] = {
        **{name: [dtype, [ROWS, heads, width]] for name in ("output", "query")},
        "pout": [dtype, [1 << 16]],
        "pmax": ["f32", [1 << 12]],
        "psum": ["f32", [1 << 12]],
        "key_cache": ["f8", [BLOCKS, kv_heads, width // 16, block, 16]],
        "value_cache": ["f8", value],
        "block_tables": ["i32", [ROWS, 8]],
        "context_lengths": ["i32", [ROWS]],
        "key_scale": scale,
        "value_scale": scale,
    }
    values = {**c, "query_dtype": dtype, "softmax_scale": width**-0.5}
    modules = ("kernels.attention.pa_decode_tile",)
    return (
        Part(modules=modules, builders=("compile_pa_decode_tile",), values=values, tensors=tensors),
        _reduction(dtype, c, partitions="num_partitions", logits_dtype_str=dtype),
    )


def _scheduler(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    names = ("seqlens_qo_indptr", "context_lens", "work_indptr", "work_info")
    more = ("reduce_indptr", "reduce_final_map", "reduce_partial_map")
    tensors: dict[str, Tensor] = {name: ["i32", [512]] for name in (*names, *more)}
    modules = ("kernels.attention.pa_metadata",)
    return (Part(modules=modules, builders=("compile_pa_metadata_v1",), values=dict(constexprs), tensors=tensors),)


def _persistent(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """Persistent paged decode: the work list's kernel and the reduction that follows it, as one op."""
    c = dict(constexprs)
    module = ("kernels.attention.pa_metadata",)
    values = {
        **c,
        "query_input_dtype": dtype,
        "output_dtype_str": dtype,
        "softmax_scale": int(constexprs["head_dim"]) ** -0.5,
    }
    heads, width = 8 * int(c["query_group_size"]), int(c["head_dim"])
    reduced = {
        "query_length": c["query_length"],
        "num_query_heads": heads,
        "head_dim": width,
        "output_dtype_str": dtype,
    }
    tensors: dict[str, Tensor] = {
        "final_output": [dtype, [ROWS, heads, width]],
        "partial_output": ["f32", [ROWS, 1, heads, width]],
        "partial_lse": ["f32", [ROWS, 1, heads, 1]],
        "reduce_indptr": ["i32", [ROWS]],
        "reduce_final_map": ["i32", [ROWS, 2]],
        "reduce_partial_map": ["i32", [ROWS]],
    }
    return (
        Part(modules=module, builders=("compile_pa_decode_metadata",), values=values),
        Part(modules=module, builders=("compile_pa_metadata_reduce",), values=reduced, tensors=tensors),
    )


PAGED: dict[str, Constexpr] = {
    "head_dim": 128,
    "query_group_size": 8,
    "block_size": 64,
    "num_partitions": 8,
    "per_token_kv": False,
    "query_length": 1,
    "trans_v": True,
}
PERSISTENT: dict[str, Constexpr] = {
    "head_dim": 128,
    "query_group_size": 16,
    "per_token_kv": False,
    "query_length": 1,
    "trans_v": False,
}
KERNELS = (
    Kernel(
        op_type="pa_decode_sliding",
        family="attention",
        parts=_sliding,
        cases=tuple(
            (dtype, {**PERSISTENT, "sliding_window": 128, "max_context_partition_num": 4, "per_token_kv": per_token})
            for dtype, per_token in (("bf16", False), ("f16", False), ("bf16", True))
        ),
    ),
    Kernel(
        op_type="pa_decode_tile",
        family="attention",
        parts=_tile,
        cases=(
            ("bf16", PAGED),
            ("f16", PAGED),
            ("bf16", {**PAGED, "block_size": 16}),
            ("bf16", {**PAGED, "per_token_kv": True}),
            ("bf16", {**PAGED, "trans_v": False, "query_length": 2}),
        ),
    ),
    Kernel(
        op_type="pa_scheduler",
        family="attention",
        parts=_scheduler,
        cases=(("i32", {"num_cu": 256, "num_heads_k": 8, "gqa": 8, "kv_granularity": 16, "query_length": 1}),),
    ),
    Kernel(
        op_type="pa_decode_persistent",
        family="attention",
        parts=_persistent,
        cases=(
            ("bf16", PERSISTENT),
            ("f16", PERSISTENT),
            ("bf16", {**PERSISTENT, "trans_v": True, "per_token_kv": True}),
        ),
    ),
)
