"""Which kernel of a checkout serves a ledger's matrix product, plain or of experts, and on which tile."""

from __future__ import annotations

from gate.binding.families.gemm import SMALL, WIDE
from gate.binding.families.kernel import HALVES, Args, Constexpr, Found, Refusal, among, element, positive

# Tiles of products of shuffled weights in bytes of K, the widest first: that of FlyDSL's own tests, then what N or K
# may need instead.
FEW_ROWS = ((16, 64, 256), (32, 64, 128))
SOME_ROWS = ((64, 256, 128), (64, 128, 128), (64, 64, 128))
MANY_ROWS = ((128, 128, 128), (128, 64, 128))
SCALED_K = 7168


def gemm(dtype: str, args: Args) -> Found:
    """16-bit products; only the tile is compiled in, and which one fits K."""
    name = among(dtype, HALVES)
    m, n, k = positive(args, "M"), positive(args, "N"), positive(args, "K")
    if m >= 256 and n >= 256 and k % 128 == 0:
        return "hgemm", name, {**WIDE, "use_half_tile_interleaved": True}
    block_k = 128 if k % 128 == 0 else 64
    if k % block_k:
        raise Refusal(f"K={k}: a remainder of K is unsupported, K must be a multiple of 64")
    if n % 8:
        raise Refusal(f"N={n}: stores take 8 elements at a time")
    return "hgemm", name, {**SMALL, "block_k": block_k}


def splitk(dtype: str, args: Args) -> Found:
    """16-bit products of checkouts up to July 2026, whose kernel has N and K compiled in; no K is split."""
    name = among(dtype, HALVES)
    m, n, k = positive(args, "M"), positive(args, "N"), positive(args, "K")
    wide = m >= 256 and n % 256 == 0
    block_n, block_k = (256, 64) if wide else (64, 64)
    if n % block_n or k % block_k:
        raise Refusal(f"N={n}, K={k}: the tile needs multiples of {block_n} and {block_k}")
    tile: dict[str, Constexpr] = {"TILE_M": 256 if wide else 64, "TILE_N": block_n, "TILE_K": block_k}
    return "hgemm_splitk", name, {"n": n, "k": k, **tile, "BLOCK_M_WARPS": 2, "BLOCK_N_WARPS": 4 if wide else 2}


def preshuffle(dtype: str, args: Args) -> Found:
    """Products of shuffled weights, on the tile that FlyDSL's own tests run for that many rows."""
    m, n, k = positive(args, "M"), positive(args, "N"), positive(args, "K")
    if dtype == "fp4":
        tile = (32, 128, 256) if m <= 32 else (64, 256, 256)
        return "mxfp_gemm", "fp4", {**_tile(n, k, tile), "b_dtype": "fp4"}
    name = among(dtype, ("fp8", "int8", "bf16", "f16"))
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


def rowscale(dtype: str, args: Args) -> Found:
    """FP8 products with a scale per row; K is compiled in, and the tile by the number of rows."""
    name = among(dtype, ("fp8",))
    positive(args, "N")
    k = positive(args, "K")
    if k % 128:
        raise Refusal(f"K={k}: the loop steps by 128 elements of K")
    return "fp8_gemm_8wave", name, {"K": k, "BLOCK_M": 128 if positive(args, "M") <= 1024 else 256, "BLOCK_N": 256}


def blockscale(dtype: str, args: Args) -> Found:
    """FP8 products with a scale for each 128 by 128 of the weights, on a tile by the number of rows."""
    name = among(dtype, ("fp8",))
    m, n, k = positive(args, "M"), positive(args, "N"), positive(args, "K")
    tile = (16, 64, 256) if m <= 48 and k % 256 == 0 else (32, 64, 128) if m <= 128 else (64, 128, 128)
    return "blockscale_preshuffle_gemm", name, _tile(n, k, tile)


def _halved(args: Args, name: str) -> int:
    """Half of an argument that holds gate and up."""
    both = positive(args, name)
    if both % 2:
        raise Refusal(f"{name}={both} holds gate and up, and is odd")
    return both // 2


def _rows_each(args: Args) -> int:
    """The rows that one expert sees."""
    return positive(args, "M") * positive(args, "TopK") // positive(args, "E")


def _expert_sizes(args: Args) -> dict[str, Constexpr]:
    return {
        "model_dim": positive(args, "Dim1"),
        "inter_dim": _halved(args, "Dim2"),
        "experts": positive(args, "E"),
        "topk": positive(args, "TopK"),
    }


def _expert_tile(rows: int) -> dict[str, Constexpr]:
    return {"tile_m": 16 if rows <= 16 else 64, "tile_n": 128, "tile_k": 128}


def _packed_tile(args: Args) -> dict[str, Constexpr]:
    """Rows of a tile of 4-bit weights, and whether the first product streams them past the caches.

    The kernel copies scales for SCALED_K values of each 32 rows, however many K has: the tiles of several 32 rows
    overwrite each other's where K differs. Weights are streamed where, as FlyDSL's host code counts, tiles share none.
    """
    places, experts = positive(args, "M") * positive(args, "TopK"), positive(args, "E")
    block = 64 if positive(args, "Dim1") == SCALED_K and _rows_each(args) > 32 else 32
    return {"weights": "mxfp4", "BM": block, "use_nt": block == 32 and -(-places // block) < experts}


def experts(dtype: str, args: Args) -> Found:
    """Tokens by experts, on a tile by the rows that one expert sees; 4-bit weights have kernels of their own."""
    name, rows = element(dtype), _rows_each(args)
    sizes = _expert_sizes(args)
    if name in ("fp4", "mixed_a8w4"):
        return "moe_gemm", "fp4" if name == "fp4" else "fp8", {**sizes, **_packed_tile(args)}
    if name not in ("fp8", "int8", "int4"):
        raise Refusal(f"dtype {dtype}: the kernels are written for fp8, int8, int4, fp4 and fp8 by fp4")
    return "moe_gemm", name, {**sizes, **_expert_tile(rows)}


def mixed_experts(dtype: str, args: Args) -> Found | None:
    """4-bit weights in checkouts up to July 2026, whose kernels keep the activations' format between the products."""
    name = element(dtype)
    if name not in ("fp4", "mixed_a8w4"):
        return None
    sizes = _expert_sizes(args)
    for key in ("model_dim", "inter_dim"):
        if int(sizes[key]) % 256:
            raise Refusal(f"{key}={sizes[key]}: the loops step by 256 values")
    tile_m = 32 if _rows_each(args) <= 32 else 64
    return "mixed_moe", "fp4" if name == "fp4" else "fp8", {**sizes, "tile_m": tile_m}


def blockscale_experts(dtype: str, args: Args) -> Found:
    """As `experts`, in fp8 with a scale for each 128 by 128 of the weights."""
    name, rows = among(dtype, ("fp8",)), _rows_each(args)
    return "moe_blockscale", name, {**_expert_sizes(args), **_expert_tile(rows)}
