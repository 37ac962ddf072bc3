"""Which kernel of a checkout serves a ledger's shape, and with what compiled in: one entry per op of the ledgers.

A kernel that FlyDSL's own dispatch would choose by sizes is chosen the same way here, by whole steps: many shapes
then share one compile key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gate.binding.families import ledger_products as products
from gate.binding.families.kernel import FLOATS, HALVES, Args, Constexpr, Found, Refusal, among, positive
from gate.binding.families.paged import PAGED, PERSISTENT

EPS = 1e-5
CODE_WORDS = {"int8": "i8", "fp8": "fp8"}
# FlyDSL's own rule for paged decode: two workgroups a compute unit of 256, partitions of 256 keys, four to eight.
RESIDENT_GROUPS, PARTITION_KEYS = 512, 256
FEWEST_PARTITIONS, MOST_PARTITIONS = 4, 8
WINDOW_PAGE = 1024


def _norm(op_type: str) -> Callable[[str, Args], Found]:
    """A ledger row of M by N; M is not compiled in."""

    def found(dtype: str, args: Args) -> Found:
        name = among(dtype, FLOATS)
        positive(args, "M")
        sizes: dict[str, Constexpr] = {"N": positive(args, "N")}
        eps = args.get("eps", EPS)
        return op_type, name, sizes if eps == EPS else {**sizes, "eps": float(eps)}

    return found


CODED = tuple(
    f"{norm}{added}_{kind}quant"
    for norm in ("rmsnorm", "layernorm")
    for added in ("", "_fused_add")
    for kind in ("dynamic", "smooth")
)


def _coded(op_type: str) -> Callable[[str, Args], Found]:
    """A normalisation that puts out 8-bit codes."""
    plain = _norm(op_type)

    def found(dtype: str, args: Args) -> Found:
        codes = str(args.get("out_dtype", "int8"))
        if codes not in CODE_WORDS:
            raise Refusal(f"out_dtype {codes}: the kernel puts out {', '.join(CODE_WORDS)}")
        name, element_type, sizes = plain(dtype, args)
        return name, element_type, {**sizes, "quant_dtype_str": CODE_WORDS[codes]}

    return found


def _flash(dtype: str, args: Args) -> Found:
    """Flash attention: the fast kernels for 128 wide heads, the generic one for others, another for windows."""
    name = among(dtype, (*HALVES, "fp8"))
    width, heads, kv_heads = positive(args, "dim_qk"), positive(args, "heads"), positive(args, "kv_heads")
    causal = bool(args.get("causal", True))
    if width != positive(args, "dim_v"):
        raise Refusal(f"dim_qk={width}, dim_v={args['dim_v']}: the kernels are written for equal widths")
    if args.get("window"):
        if name != "bf16" or width != 128:
            raise Refusal(f"window with {dtype} and width {width}: the kernel is written for bf16 and 128")
        sizes: dict[str, Constexpr] = {"batch": positive(args, "batch"), "heads": heads, "kv_heads": kv_heads}
        # A window of w keys holds the query's own; FlyDSL counts those before it.
        return "swa", name, {**sizes, "head_dim": width, "left": int(args["window"]) - 1, "right": 0}
    shape: dict[str, Constexpr] = {"num_heads": heads, "head_dim": width, "causal": causal}
    if kv_heads != heads:
        shape["num_kv_heads"] = kv_heads
    if name == "fp8":
        return "flash_attn_fp8", name, {**shape, "dtype_str": "fp8"}
    return ("flash_attn" if width == 128 else "flash_attn_generic"), name, shape


def _mla(dtype: str, args: Args) -> Found:
    among(dtype, ("fp8",))
    if positive(args, "heads") != 128:
        raise Refusal(f"heads={args['heads']}: the kernel is written for 128 heads")
    return "mla_decode", "fp8", {}


def _paged(dtype: str, args: Args) -> Found:
    """Paged decode over an 8-bit cache; queries are bf16."""
    among(dtype, ("fp8",))
    width, kv_heads, block = positive(args, "dim_qk"), positive(args, "kv_heads"), positive(args, "block_size")
    group = positive(args, "heads") // kv_heads
    shape: dict[str, Constexpr] = {
        "head_dim": width,
        "query_group_size": group,
        "query_length": positive(args, "seq_q"),
    }
    if args.get("window"):
        if block != WINDOW_PAGE:
            raise Refusal(f"block_size={block}: the sliding-window kernel is written for pages of {WINDOW_PAGE}")
        # A window of w keys holds the query's own; FlyDSL counts those before it.
        before = int(args["window"]) - 1
        parts = -(-(before + positive(args, "seq_q") - 1) // PARTITION_KEYS) + 1
        window = {"sliding_window": before, "max_context_partition_num": parts}
        return "pa_decode_sliding", "bf16", {**PERSISTENT, **shape, **window}
    if block not in (16, 64):
        raise Refusal(f"block_size={block}: the kernel is written for pages of 16 and 64")
    pages = PARTITION_KEYS // block
    wanted = -(-RESIDENT_GROUPS // (positive(args, "batch") * kv_heads * pages)) * pages
    parts = max(FEWEST_PARTITIONS, min(wanted, MOST_PARTITIONS))
    return "pa_decode_tile", "bf16", {**PAGED, **shape, "block_size": block, "num_partitions": parts}


def _rope(dtype: str, args: Args) -> Found:
    """The fused rotary embedding; the number of tokens is not compiled in."""
    name = among(dtype, HALVES)
    if args.get("rotate_style", "neox") != "neox":
        raise Refusal(f"rotate_style {args['rotate_style']}: the kernel rotates halves (neox)")
    return (
        "fused_rope_cache",
        name,
        {
            "head_dim": positive(args, "head_dim"),
            "num_q_heads": positive(args, "num_heads"),
            "num_kv_heads": positive(args, "num_kv_heads"),
            "block_size": positive(args, "block_size"),
            "flash_layout": bool(args.get("flash_layout", True)),
            "apply_scale": bool(args.get("apply_scale", False)),
            "reuse_freqs_front_part": bool(args.get("reuse_freqs_front_part", True)),
            "pos_dtype": str(args.get("pos_dtype", "i32")),
        },
    )


def _topk(dtype: str, args: Args) -> Found:
    name = among(dtype, FLOATS)
    return "topk_gating_softmax", name, {"num_experts": positive(args, "num_experts"), "topk": positive(args, "topk")}


def _reduce(dtype: str, args: Args) -> Found:
    name = among(dtype, FLOATS)
    return "moe_reduction", name, {"topk": positive(args, "topk"), "model_dim": positive(args, "model_dim")}


def _sorting(dtype: str, args: Args) -> Found:
    """One launch for few tokens, two for up to 2048, four beyond: FlyDSL's own rule."""
    tokens, experts, topk = positive(args, "num_tokens"), positive(args, "num_experts"), positive(args, "topk")
    sizes: dict[str, Constexpr] = {"num_experts": experts, "topk": topk, "unit_size": positive(args, "unit_size")}
    if tokens <= max(16, 256 // max(topk, experts // 8)):
        return "moe_sorting", "bf16", {**sizes, "path": "oneshot", "max_tokens": -(-max(tokens, 8) // 8) * 8}
    return "moe_sorting", "bf16", {**sizes, "path": "p0v2_p23" if tokens <= 2048 else "4k_fused"}


SHAPES: Mapping[str, Callable[[str, Args], Found]] = {
    "rmsnorm": _norm("rmsnorm"),
    "layernorm": _norm("layernorm"),
    "softmax": _norm("softmax"),
    "rmsnorm_bwd": _norm("rmsnorm_bwd"),
    "fused_add_rmsnorm": _norm("rmsnorm_fused_add"),
    "layernorm_fused_add": _norm("layernorm_fused_add"),
    **{name: _coded(name) for name in CODED},
    "gemm": products.gemm,
    "preshuffle_gemm": products.preshuffle,
    "fp8_gemm_rowscale": products.rowscale,
    "flash_attn": _flash,
    "mla_decode": _mla,
    "pa_decode": _paged,
    "fused_rope_cache": _rope,
    "topk_gating_softmax": _topk,
    "moe_gemm": products.experts,
    "moe_reduce": _reduce,
    "moe_sorting": _sorting,
    "blockscale_preshuffle_gemm": products.blockscale,
    "moe_blockscale": products.blockscale_experts,
}
# Ops whose kernel replaced another: what serves them in a checkout that has only the other.
OLDER: Mapping[str, Callable[[str, Args], Found | None]] = {
    "gemm": products.splitk,
    "moe_gemm": products.mixed_experts,
}
