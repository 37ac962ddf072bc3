"""Attention: flash kernels, sliding windows, MLA decode, and what fills the cache before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gate.binding.families import paged
from gate.binding.families.kernel import ROWS, Constexpr, Constexprs, Kernel, Part, Tensor

BLOCKS = 32
# Compute units of an MI350X, over which the work of the latent decode is spread.
LATENT_UNITS = 256
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
        values={"num_cus": LATENT_UNITS, "lds_size": 163840},
        tensors=tensors,
    )
    return (part,)


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
    *paged.KERNELS,
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
        op_type="qk_norm_rope_quant",
        family="attention",
        parts=_qk_norm,
        occupancy_bound=True,
        cases=(("bf16", NORM_ROPE), ("bf16", {**NORM_ROPE, "quant": False})),
    ),
)
