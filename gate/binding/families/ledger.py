"""Which kernel of a checkout serves a ledger's shape, and with what compiled in: one entry per op of the ledgers.

A kernel that FlyDSL's own dispatch would choose by sizes is chosen the same way here, by whole steps: many shapes
then share one compile key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gate.binding.families.gemm import SMALL, WIDE
from gate.binding.families.kernel import Constexpr, Refusal, element, positive
from gate.binding.families.paged import PAGED, PERSISTENT

Args = Mapping[str, Any]
Found = tuple[str, str, dict[str, Constexpr]]
EPS = 1e-5
FLOATS = ("bf16", "f16", "f32")
HALVES = ("bf16", "f16")
CODE_WORDS = {"int8": "i8", "fp8": "fp8"}
# FlyDSL's own rule for paged decode: two workgroups a compute unit of 256, partitions of 256 keys, four to eight.
RESIDENT_GROUPS, PARTITION_KEYS = 512, 256
FEWEST_PARTITIONS, MOST_PARTITIONS = 4, 8
WINDOW_PAGE = 1024
# Tiles of products of shuffled weights in bytes of K, the widest first: that of FlyDSL's own tests, then what N or K
# may need instead.
FEW_ROWS = ((16, 64, 256), (32, 64, 128))
SOME_ROWS = ((64, 256, 128), (64, 128, 128), (64, 64, 128))
MANY_ROWS = ((128, 128, 128), (128, 64, 128))


def _among(dtype: str, allowed: tuple[str, ...]) -> str:
    name = element(dtype)
    if name not in allowed:
        raise Refusal(f"dtype {dtype}: the kernel is written for {', '.join(allowed)}")
    return name


def _norm(op_type: str) -> Callable[[str, Args], Found]:
    """A ledger row of M by N; M is not compiled in."""

    def found(dtype: str, args: Args) -> Found:
        name = _among(dtype, FLOATS)
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


def _gemm(dtype: str, args: Args) -> Found:
    """16-bit products; only the tile is compiled in, and which one fits K."""
    name = _among(dtype, HALVES)
    m, n, k = positive(args, "M"), positive(args, "N"), positive(args, "K")
    if m >= 256 and n >= 256 and k % 128 == 0:
        return "hgemm", name, {**WIDE, "use_half_tile_interleaved": True}
    block_k = 128 if k % 128 == 0 else 64
    if k % block_k:
        raise Refusal(f"K={k}: a remainder of K is unsupported, K must be a multiple of 64")
    if n % 8:
        raise Refusal(f"N={n}: stores take 8 elements at a time")
    return "hgemm", name, {**SMALL, "block_k": block_k}


def _splitk(dtype: str, args: Args) -> Found:
    """16-bit products of checkouts up to July 2026, whose kernel has N and K compiled in; no K is split."""
    name = _among(dtype, HALVES)
    m, n, k = positive(args, "M"), positive(args, "N"), positive(args, "K")
    wide = m >= 256 and n % 256 == 0
    block_n, block_k = (256, 64) if wide else (64, 64)
    if n % block_n or k % block_k:
        raise Refusal(f"N={n}, K={k}: the tile needs multiples of {block_n} and {block_k}")
    tile: dict[str, Constexpr] = {"TILE_M": 256 if wide else 64, "TILE_N": block_n, "TILE_K": block_k}
    return "hgemm_splitk", name, {"n": n, "k": k, **tile, "BLOCK_M_WARPS": 2, "BLOCK_N_WARPS": 4 if wide else 2}


def _preshuffle(dtype: str, args: Args) -> Found:
    """Products of shuffled weights, on the tile that FlyDSL's own tests run for that many rows."""
    m, n, k = positive(args, "M"), positive(args, "N"), positive(args, "K")
    if dtype == "fp4":
        tile = (32, 128, 256) if m <= 32 else (64, 256, 256)
        return "mxfp_gemm", "fp4", {**_tile(n, k, tile), "b_dtype": "fp4"}
    name = _among(dtype, ("fp8", "int8", "bf16", "f16"))
    tiles: tuple[tuple[int, int, int], ...] = FEW_ROWS if m <= 32 else SOME_ROWS if m <= 1024 else MANY_ROWS
    if name in HALVES:
        tiles = tuple((rows, columns, depth // 2) for rows, columns, depth in tiles)
    fitting = [tile for tile in tiles if n % tile[1] == 0 and k % tile[2] == 0]
    return "preshuffle_gemm", name, _tile(n, k, fitting[0] if fitting else tiles[-1])


def _tile(n: int, k: int, tile: tuple[int, ...]) -> dict[str, Constexpr]:
    tile_m, tile_n, tile_k = tile
    if n % tile_n or k % tile_k:
        need = f"multiples of {tile_n} and {tile_k}"
        raise Refusal(f"N={n}, K={k}: the tile of {tile_m}x{tile_n}x{tile_k} needs {need}")
    return {"N": n, "K": k, "tile_m": tile_m, "tile_n": tile_n, "tile_k": tile_k}


def _rowscale(dtype: str, args: Args) -> Found:
    """FP8 products with a scale per row; K is compiled in, and the tile by the number of rows."""
    name = _among(dtype, ("fp8",))
    positive(args, "N")
    k = positive(args, "K")
    if k % 128:
        raise Refusal(f"K={k}: the loop steps by 128 elements of K")
    return "fp8_gemm_8wave", name, {"K": k, "BLOCK_M": 128 if positive(args, "M") <= 1024 else 256, "BLOCK_N": 256}


def _flash(dtype: str, args: Args) -> Found:
    """Flash attention: the fast kernels for 128 wide heads, the generic one for others, another for windows."""
    name = _among(dtype, (*HALVES, "fp8"))
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
    _among(dtype, ("fp8",))
    if positive(args, "heads") != 128:
        raise Refusal(f"heads={args['heads']}: the kernel is written for 128 heads")
    return "mla_decode", "fp8", {}


def _paged(dtype: str, args: Args) -> Found:
    """Paged decode over an 8-bit cache; queries are bf16."""
    _among(dtype, ("fp8",))
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
    name = _among(dtype, HALVES)
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
    name = _among(dtype, FLOATS)
    return "topk_gating_softmax", name, {"num_experts": positive(args, "num_experts"), "topk": positive(args, "topk")}


def _halved(args: Args, name: str) -> int:
    """Half of an argument that holds gate and up."""
    both = positive(args, name)
    if both % 2:
        raise Refusal(f"{name}={both} holds gate and up, and is odd")
    return both // 2


def _moe(dtype: str, args: Args) -> Found:
    """Tokens by experts, on a tile by the rows that one expert sees; 4-bit weights have kernels of their own."""
    name = element(dtype)
    rows = positive(args, "M") * positive(args, "TopK") // positive(args, "E")
    sizes: dict[str, Constexpr] = {
        "model_dim": positive(args, "Dim1"),
        "inter_dim": _halved(args, "Dim2"),
        "experts": positive(args, "E"),
        "topk": positive(args, "TopK"),
    }
    if name in ("fp4", "mixed_a8w4"):
        packed: dict[str, Constexpr] = {"weights": "mxfp4", "BM": 32 if rows <= 32 else 64}
        return "moe_gemm", "fp4" if name == "fp4" else "fp8", {**sizes, **packed}
    if name not in ("fp8", "int8", "int4"):
        raise Refusal(f"dtype {dtype}: the kernels are written for fp8, int8, int4, fp4 and fp8 by fp4")
    return "moe_gemm", name, {**sizes, "tile_m": 16 if rows <= 16 else 64, "tile_n": 128, "tile_k": 128}


def _reduce(dtype: str, args: Args) -> Found:
    name = _among(dtype, FLOATS)
    return "moe_reduction", name, {"topk": positive(args, "topk"), "model_dim": positive(args, "model_dim")}


def _blockscale(dtype: str, args: Args) -> Found:
    """FP8 products with a scale for each 128 by 128 of the weights, on a tile by the number of rows."""
    name = _among(dtype, ("fp8",))
    m, n, k = positive(args, "M"), positive(args, "N"), positive(args, "K")
    tile = (16, 64, 256) if m <= 48 and k % 256 == 0 else (32, 64, 128) if m <= 128 else (64, 128, 128)
    return "blockscale_preshuffle_gemm", name, _tile(n, k, tile)


def _moe_blockscale(dtype: str, args: Args) -> Found:
    name = _among(dtype, ("fp8",))
    rows = positive(args, "M") * positive(args, "TopK") // positive(args, "E")
    sizes: dict[str, Constexpr] = {
        "model_dim": positive(args, "Dim1"),
        "inter_dim": _halved(args, "Dim2"),
        "experts": positive(args, "E"),
        "topk": positive(args, "TopK"),
    }
    return "moe_blockscale", name, {**sizes, "tile_m": 16 if rows <= 16 else 64, "tile_n": 128, "tile_k": 128}


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
    "gemm": _gemm,
    "preshuffle_gemm": _preshuffle,
    "fp8_gemm_rowscale": _rowscale,
    "flash_attn": _flash,
    "mla_decode": _mla,
    "pa_decode": _paged,
    "fused_rope_cache": _rope,
    "topk_gating_softmax": _topk,
    "moe_gemm": _moe,
    "moe_reduce": _reduce,
    "moe_sorting": _sorting,
    "blockscale_preshuffle_gemm": _blockscale,
    "moe_blockscale": _moe_blockscale,
}
# Ops whose kernel replaced another: what serves them in a checkout that has only the other.
OLDER: Mapping[str, Callable[[str, Args], Found]] = {"gemm": _splitk}
