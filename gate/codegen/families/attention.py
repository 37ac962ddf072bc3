"""Attention: flash kernels, sliding windows, paged decode, MLA decode, and what fills the cache before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gate.codegen.families.kernel import ROWS, Constexprs, Kernel, Part, Tensor
from gate.model.codegen import Constexpr

BLOCKS = 32
ONE: Tensor = ["f32", [1]]


def _flash(module: str, builder: str, *, held: str | None = None) -> Callable[[str, Constexprs], tuple[Part, ...]]:
    """The flash kernels take [batch, tokens, heads, head_dim]; what a feature adds is there when the case asks it."""

    def parts(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
        heads, width = int(constexprs["num_heads"]), int(constexprs["head_dim"])
        image = [1, 256, heads, width]
        tensors: dict[str, Tensor] = {name: [held or dtype, image] for name in ("Q", "K", "V")}
        tensors |= {name: ["bf16" if held else dtype, image] for name in ("O", "Out")}
        features: dict[str, dict[str, Tensor]] = {
            "has_bias": {"bias": [dtype, [256, 256]]},
            "has_alibi": {"alibi_slopes": ["f32", [heads]]},
            "has_sink": {"sink": ["f32", [heads]]},
            "return_lse": {"lse": ["f32", [1, heads, 256]]},
            "varlen": {"cu_seqlens_q": ["i32", [2]], "cu_seqlens_kv": ["i32", [2]]},
            "paged": {"block_table": ["i32", [BLOCKS]]},
            "num_kv_splits": {"workspace": ["f32", [1 << 20]]},
        }
        for feature, more in features.items():
            tensors |= more if constexprs.get(feature) else {}
        values = dict(constexprs) if held else {**constexprs, "dtype_str": dtype}
        return (Part(modules=(module,), builders=(builder,), values=values, tensors=tensors),)

    return parts


def _swa(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    names = {"heads": "ATTN_H", "kv_heads": "ATTN_H_KV", "batch": "ATTN_B", "head_dim": "ATTN_D"}
    values: dict[str, Any] = {names[name]: value for name, value in constexprs.items() if name in names}
    values["sliding_window"] = [constexprs["left"], constexprs["right"]]
    tensors = {name: ["bf16", [1 << 16]] for name in ("Q", "K", "V", "O")}
    return (
        Part(modules=("kernels.attention.swa_gfx950",), builders=("build_gqa_attn",), values=values, tensors=tensors),
    )


def _rope(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    c = constexprs
    heads, kv_heads, width, block = (int(c[n]) for n in ("num_q_heads", "num_kv_heads", "head_dim", "block_size"))
    cache = "u8" if c["apply_scale"] else dtype
    index = "i64" if c["pos_dtype"] == "i64" else "i32"
    columns = width // 2 if c["reuse_freqs_front_part"] else width
    if c["flash_layout"]:
        key, value = [BLOCKS, block, kv_heads, width], [BLOCKS, block, kv_heads, width]
    else:
        key, value = [BLOCKS, kv_heads, width // 16, block, 16], [BLOCKS, kv_heads, width, block]
    tensors: dict[str, Tensor] = {
        **{name: [dtype, [ROWS, heads, width]] for name in ("Q", "Q_out")},
        **{name: [dtype, [ROWS, kv_heads, width]] for name in ("K", "V", "K_out")},
        **{name: [dtype, [8192, columns]] for name in ("CosCache", "SinCache")},
        **{name: [index, [ROWS]] for name in ("Positions", "SlotMapping")},
        "KeyCache": [cache, key],
        "ValueCache": [cache, value],
        "KScale": ONE,
        "VScale": ONE,
    }
    values = {**c, "dtype_str": dtype}
    modules = ("kernels.attention.fused_rope_cache_kernel",)
    return (Part(modules=modules, builders=("build_fused_rope_cache_module",), values=values, tensors=tensors),)


def _mla(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    heads, query, value = 128, 576, 512
    tensors: dict[str, Tensor] = {
        "query": ["f8", [ROWS * heads, query]],
        "kv_buffer": ["f8", [64, query]],
        "kv_page_indices": ["i32", [64]],
        "work_indptr": ["i32", [257]],
        "work_info_set": ["i32", [512]],
        "final_output": ["bf16", [ROWS * heads, value]],
        "split_output": ["f32", [ROWS * heads, value]],
        "split_lse": ["f32", [ROWS * heads]],
    }
    part = Part(
        modules=("kernels.attention.mla_fwd_decode_m16x8_fp8_fp8",),
        launchers=("launch_mla_fwd_decode_m16x8_fp8_fp8",),
        values={"num_cus": 256, "lds_size": 163840},
        tensors=tensors,
    )
    return (part,)


def _sliding(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """Sliding-window decode: the partitions and the reduction that follows them, as one op."""
    module = ("kernels.attention.pa_decode_swa",)
    c = dict(constexprs)
    reduced = {
        "max_context_partition_num": c["max_context_partition_num"],
        "query_seq_len": c["query_length"],
        "query_group_size": c["query_group_size"],
        "head_size": c["head_dim"],
        "output_dtype_str": dtype,
    }
    values = {**c, "query_input_dtype": dtype, "softmax_scale": 0.0884}
    return (
        Part(modules=module, builders=("compile_pa_decode_sw",), values=values),
        Part(modules=module, builders=("compile_pa_decode_sw_reduce",), values=reduced),
    )


def _tile(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
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
    values = {**c, "query_dtype": dtype, "softmax_scale": 0.0884}
    modules = ("kernels.attention.pa_decode_tile",)
    return (Part(modules=modules, builders=("compile_pa_decode_tile",), values=values, tensors=tensors),)


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
    values = {**c, "query_input_dtype": dtype, "output_dtype_str": dtype, "softmax_scale": 0.0884}
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


def _qk_norm(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    width, rope = int(constexprs["head_dim"]), int(constexprs["rope_head_dim"])
    tensors: dict[str, Tensor] = {
        "q_weight": ["bf16", [width], "static"],
        "kv_weight": ["bf16", [width], "static"],
        "cos_cache": ["bf16", [8192, rope // 2], "static"],
        "sin_cache": ["bf16", [8192, rope // 2], "static"],
    }
    modules = ("kernels.attention.qk_norm_rope_quant",)
    builders = ("compile_flydsl_qk_norm_rope_quant",)
    return (Part(modules=modules, builders=builders, values=dict(constexprs), tensors=tensors),)


FLASH: dict[str, Constexpr] = {"num_heads": 32, "head_dim": 128, "causal": True}
WAVES = ("kernels.attention.flash_attn_gfx950", "build_flash_attn_dualwave_swp_module")
ROPE: dict[str, Constexpr] = {
    "head_dim": 128,
    "num_q_heads": 8,
    "num_kv_heads": 1,
    "block_size": 16,
    "flash_layout": True,
    "apply_scale": False,
    "reuse_freqs_front_part": True,
    "pos_dtype": "i32",
}
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
NORM_ROPE: dict[str, Constexpr] = {
    "num_q_heads": 64,
    "head_dim": 512,
    "rope_head_dim": 64,
    "quant": True,
    "group_size": 128,
    "scale_dtype": "fp32",
    "q_weighted": True,
}

KERNELS = (
    Kernel(
        op_type="flash_attn_generic",
        family="attention",
        parts=_flash("kernels.attention.flash_attn_generic", "build_flash_attn_func_module_primary"),
        cases=(
            ("f16", FLASH),
            ("bf16", FLASH),
            ("bf16", {**FLASH, "causal": False}),
            ("bf16", {**FLASH, "num_kv_heads": 8, "head_dim": 64}),
            ("bf16", {**FLASH, "return_lse": True}),
            ("bf16", {**FLASH, "varlen": True}),
        ),
    ),
    Kernel(
        op_type="flash_attn",
        family="attention",
        parts=_flash(*WAVES),
        cases=(
            ("bf16", FLASH),
            ("f16", FLASH),
            ("bf16", {**FLASH, "causal": False}),
            ("bf16", {**FLASH, "num_kv_heads": 8}),
            ("bf16", {**FLASH, "varlen": True}),
            ("bf16", {**FLASH, "return_lse": True}),
            ("bf16", {**FLASH, "causal": False, "has_bias": True}),
            ("bf16", {**FLASH, "has_alibi": True}),
            ("bf16", {**FLASH, "has_sink": True}),
            ("bf16", {**FLASH, "num_kv_splits": 4, "num_kv_heads": 8}),
            ("bf16", {**FLASH, "paged": True, "num_kv_heads": 8}),
        ),
    ),
    Kernel(
        op_type="flash_attn_fp8",
        family="attention",
        parts=_flash("kernels.attention.flash_attn_fp8_gfx950", "build_flash_attn_dualwave_swp_fp8_module", held="f8"),
        cases=(
            ("fp8", {**FLASH, "dtype_str": "fp8"}),
            ("fp8", {**FLASH, "dtype_str": "fp8", "causal": False}),
            ("fp8", {**FLASH, "dtype_str": "fp8", "num_kv_heads": 8}),
        ),
    ),
    Kernel(
        op_type="swa",
        family="attention",
        parts=_swa,
        cases=(
            ("bf16", {"batch": 2, "heads": 64, "kv_heads": 8, "head_dim": 128, "left": 128, "right": 0}),
            ("bf16", {"batch": 2, "heads": 64, "kv_heads": 8, "head_dim": 128, "left": 256, "right": 256}),
        ),
    ),
    Kernel(
        op_type="fused_rope_cache",
        family="attention",
        parts=_rope,
        occupancy_bound=True,
        cases=(
            ("bf16", ROPE),
            ("f16", ROPE),
            ("bf16", {**ROPE, "head_dim": 64}),
            ("bf16", {**ROPE, "flash_layout": False}),
            ("bf16", {**ROPE, "flash_layout": False, "apply_scale": True, "pos_dtype": "i64"}),
        ),
    ),
    Kernel(op_type="mla_decode", family="attention", parts=_mla, cases=(("fp8", {}),)),
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
    Kernel(
        op_type="qk_norm_rope_quant",
        family="attention",
        parts=_qk_norm,
        occupancy_bound=True,
        cases=(("bf16", NORM_ROPE), ("bf16", {**NORM_ROPE, "quant": False})),
    ),
)
