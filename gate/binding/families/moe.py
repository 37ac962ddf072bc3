"""Mixtures of experts: routing, sorting, the two grouped products in every weight format, and the reduction."""

from __future__ import annotations

from functools import partial

from gate.binding.families.kernel import ROWS, Constexpr, Constexprs, Kernel, Part, Tensor

SORTED = 512


def _topk(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    experts, topk = int(constexprs["num_experts"]), int(constexprs["topk"])
    tensors: dict[str, Tensor] = {
        "GatingOutput": [dtype, [ROWS, experts]],
        "TopkWeights": ["f32", [ROWS, topk]],
        "TopkIndices": ["i32", [ROWS, topk]],
        "TokenExpertIndices": ["i32", [ROWS, topk]],
    }
    part = Part(
        modules=("kernels.moe.topk_gating_softmax_kernel",),
        builders=("build_topk_gating_softmax_module",),
        values={**constexprs, "dtype_str": dtype},
        tensors=tensors,
    )
    return (part,)


def _stages(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """Gate-and-up and down, as one op: what one layer launches."""
    c = dict(constexprs)
    model, inter, experts = (int(c[name]) for name in ("model_dim", "inter_dim", "experts"))
    out = str(c.pop("out_dtype", "bf16"))
    routing: dict[str, Tensor] = {
        "arg_out": [out, [ROWS, int(c["topk"]), inter]],
        "arg_x": ["i8", [ROWS * model]],
        "arg_w": ["i8", [experts * 2 * inter * model]],
        "arg_scale_x": ["f32", [ROWS]],
        "arg_scale_w": ["f32", [experts * 2 * inter]],
        "arg_sorted_token_ids": ["i32", [SORTED]],
        "arg_expert_ids": ["i32", [SORTED // 16]],
        "arg_sorted_weights": ["f32", [SORTED]],
        "arg_max_token_ids": ["i32", [1]],
        "arg_num_valid_ids": ["i32", [1]],
    }
    first = {**c, "in_dtype": dtype, "out_dtype": out, "doweight_stage1": False}
    second = {**c, "in_dtype": dtype, "out_dtype": out, "doweight_stage2": True}
    down = {**routing, "arg_out": [out, [ROWS, model]]}
    return (
        Part(
            modules=("kernels.moe.moe_gemm_2stage.gemm1", "kernels.moe_gemm_2stage"),
            builders=("compile_moe_gemm1",),
            values=first,
            tensors=routing,
        ),
        Part(
            modules=("kernels.moe.moe_gemm_2stage.gemm2", "kernels.moe_gemm_2stage"),
            builders=("compile_moe_gemm2",),
            values=second,
            tensors=down,
        ),
    )


def _blockscale(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """The same two launches with scales by block; older checkouts only: FlyDSL dropped them in July 2026."""
    parts = []
    for part, stage in zip(_stages(dtype, constexprs), ("gemm1", "gemm2"), strict=True):
        values = {name: value for name, value in part.values.items() if name != "in_dtype"}
        modules = (f"kernels.moe.moe_blockscale_2stage.{stage}", "kernels.moe_blockscale_2stage")
        build = (f"compile_moe_blockscale_{stage}",)
        parts.append(Part(modules=modules, builders=build, values=values, tensors=part.tensors))
    return tuple(parts)


def _packed(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """The two products over 4-bit weights with shared exponents; activations fp4 or fp8."""
    c = constexprs
    block = int(c["BM"])
    first = {
        "BM": block,
        "use_nt": c.get("use_nt", block == 32),
        "D_HIDDEN": c["model_dim"],
        "D_INTER": c["inter_dim"],
        "NE": c["experts"],
        "TOPK": c["topk"],
        "a_dtype": dtype,
    }
    second = {"BM": block, "NE": c["experts"], "N_OUT": c["model_dim"], "D_INTER": c["inter_dim"], "use_nt": True}
    return (
        Part(modules=("kernels.moe.mxfp_moe.gemm1",), builders=("compile_gemm1_a4w4_port",), values=first),
        Part(modules=("kernels.moe.mxfp_moe.gemm2",), builders=("compile_gemm2_a4w4_port",), values=second),
    )


def _wide(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """The two products of bf16 activations over narrow weights."""
    c = constexprs
    tiles = {"BM": c["BM"], "TILE_N": c["TILE_N"], "TILE_K": c["TILE_K"], "w_dtype": c["w_dtype"]}
    first = {
        **tiles,
        "D_HIDDEN": c["model_dim"],
        "D_INTER": c["inter_dim"],
        "NE": c["experts"],
        "TOPK": c["topk"],
    }
    second = {**tiles, "NE": c["experts"], "N_OUT": c["model_dim"], "D_INTER": c["inter_dim"]}
    return (
        Part(modules=("kernels.moe.moe_2stage_a16wmix.gemm1",), builders=("compile_gemm1_a16w4_port",), values=first),
        Part(modules=("kernels.moe.moe_2stage_a16wmix.gemm2",), builders=("compile_gemm2_a16w4_port",), values=second),
    )


def _moe(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    if constexprs.get("weights") == "mxfp4":
        return _packed(dtype, constexprs)
    return _stages(dtype, constexprs)


SORTING: dict[str, Tensor] = {
    "topk_ids": ["i32", [ROWS, 8]],
    "topk_ids_tensor": ["i32", [ROWS, 8]],
    "topk_weights_tensor": ["f32", [ROWS, 8]],
    "sorted_token_ids": ["i32", [SORTED]],
    "sorted_weights_out": ["f32", [SORTED]],
    "sorted_expert_ids": ["i32", [SORTED]],
    "num_valid_ids_out": ["i32", [2]],
    "moe_buf": ["i32", [ROWS, 3584]],
    "expert_mask_tensor": ["i32", [1]],
    "workspace": ["i32", [1 << 16]],
    "gating_logits": ["bf16", [ROWS, 256]],
}


def _sorting(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """Three launchers by the number of tokens: `path` names the one that is meant."""
    c = {name: value for name, value in constexprs.items() if name != "path"}
    path = str(constexprs["path"])
    module = ("kernels.moe.moe_sorting_kernel",)
    if path == "oneshot_fused":
        values = {**c, "dtype_str": dtype}
        grid = {"n_grid_blocks": 257}
        build = ("compile_moe_sorting_oneshot_fused",)
        return (Part(modules=module, builders=build, values=values, offers=grid, tensors=SORTING),)
    launcher = (f"launch_{'moe_sorting_' if path == 'oneshot' else ''}{path}",)
    build = ("compile_moe_sorting",)
    return (Part(modules=module, builders=build, launchers=launcher, values=c, tensors=SORTING),)


def _reduction(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    modules = (
        "kernels.moe.moe_gemm_2stage.moe_reduce",
        "kernels.moe.moe_gemm_2stage.reduction",
        "kernels.moe_gemm_2stage",
    )
    values = {**constexprs, "dtype_str": dtype}
    return (Part(modules=modules, builders=("compile_moe_reduction",), values=values),)


def _grouped(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    model, inter = int(constexprs["model_dim"]), int(constexprs["inter_dim"])
    tensors: dict[str, Tensor] = {
        "out": ["u8", [SORTED, inter]],
        "x": ["u8", [SORTED, model]],
        "w": ["u8", [8 * 2 * inter, model // 2]],
        "scale_x": ["u8", [SORTED, model // 32]],
        "scale_w": ["u8", [8 * 2 * inter, model // 32]],
        "tile_row_base": ["i32", [64]],
        "expert_ids": ["i32", [64]],
        "out_scale": ["u8", [SORTED, inter // 32]],
    }
    modules = ("kernels.mega_moe.gemm1",)
    return (Part(modules=modules, builders=("compile_gemm1",), values=dict(constexprs), tensors=tensors),)


V3: dict[str, Constexpr] = {"model_dim": 7168, "inter_dim": 512, "experts": 256, "topk": 8}
QWEN: dict[str, Constexpr] = {"model_dim": 4096, "inter_dim": 1536, "experts": 128, "topk": 8}
DECODE: dict[str, Constexpr] = {"tile_m": 16, "tile_n": 128, "tile_k": 128}
PREFILL: dict[str, Constexpr] = {"tile_m": 64, "tile_n": 128, "tile_k": 128}
NARROW: dict[str, Constexpr] = {"BM": 32, "TILE_N": 64, "TILE_K": 128}
ROUTED: dict[str, Constexpr] = {"num_experts": 256, "topk": 8}

_kernel = partial(Kernel, family="moe")

KERNELS = (
    _kernel(
        op_type="topk_gating_softmax",
        parts=_topk,
        occupancy_bound=True,
        cases=(
            ("bf16", ROUTED),
            ("f32", ROUTED),
            ("bf16", {"num_experts": 384, "topk": 8}),
            ("bf16", {"num_experts": 8, "topk": 2}),
            ("f16", {"num_experts": 128, "topk": 6}),
        ),
    ),
    _kernel(
        op_type="moe_gemm",
        parts=_moe,
        cases=(
            ("fp8", {**V3, **DECODE}),
            ("fp8", {**V3, **PREFILL}),
            ("int8", {**QWEN, **DECODE}),
            ("int8", {**QWEN, **PREFILL}),
            ("int4", {**QWEN, **PREFILL}),
            ("fp8", {**V3, **PREFILL, "out_dtype": "f16"}),
            ("fp4", {**V3, "weights": "mxfp4", "BM": 32}),
            ("fp4", {**V3, "weights": "mxfp4", "BM": 64}),
            ("fp8", {**V3, "weights": "mxfp4", "BM": 32}),
        ),
    ),
    _kernel(
        op_type="moe_blockscale",
        parts=_blockscale,
        cases=(("fp8", {**V3, **DECODE}), ("fp8", {**V3, **PREFILL})),
    ),
    _kernel(
        op_type="moe_gemm_a16",
        parts=_wide,
        cases=tuple(("bf16", {**V3, **NARROW, "w_dtype": weights}) for weights in ("mxfp4", "int4", "bf16")),
    ),
    _kernel(
        op_type="moe_gemm_grouped",
        parts=_grouped,
        cases=(("fp4", {"model_dim": 7168, "inter_dim": 2048}),),
    ),
    _kernel(
        op_type="moe_sorting",
        parts=_sorting,
        cases=(
            ("bf16", {**ROUTED, "path": "oneshot", "max_tokens": 16}),
            ("bf16", {**ROUTED, "path": "p0v2_p23"}),
            ("bf16", {**ROUTED, "path": "4k_fused"}),
            ("bf16", {**ROUTED, "path": "oneshot_fused"}),
            ("bf16", {**ROUTED, "path": "oneshot", "max_tokens": 16, "has_mask": True}),
        ),
    ),
    _kernel(
        op_type="moe_reduction",
        parts=_reduction,
        occupancy_bound=True,
        cases=(
            ("bf16", {"topk": 8, "model_dim": 7168}),
            ("f16", {"topk": 6, "model_dim": 4096, "use_mask": True, "num_experts": 64}),
        ),
    ),
)
