"""Matrix products: preshuffled weights, FP8 and FP4 by four or eight waves, 16-bit, and shared-exponent formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gate.binding.families.kernel import Constexpr, Constexprs, Kernel, Part

ONE_BYTE = ("fp8", "int8", "int4")
# What the kernels call a 16-bit input.
WORDS: Mapping[str, str] = {"f16": "fp16", "bf16": "bf16"}


def _flat(dtype: str, elements: int, layout: str = "dynamic") -> list[Any]:
    return [dtype, [elements], layout]


def _preshuffle(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    size = int(constexprs["N"]) * int(constexprs["K"])
    held = "i8" if dtype in ONE_BYTE else dtype
    out = "bf16" if dtype in (*ONE_BYTE, "bf16") else "f16"
    scale = "f32"
    tensors = {
        "arg_c": _flat(out, 16 * int(constexprs["N"])),
        "arg_a": _flat(held, 16 * int(constexprs["K"])),
        "arg_b": _flat(held, size),
        "arg_scale_a": _flat(scale, 16),
        "arg_scale_b": _flat(scale, int(constexprs["N"])),
        "arg_bias": _flat(out, int(constexprs["N"])),
    }
    values = {**constexprs, "in_dtype": WORDS.get(dtype, dtype), "out_dtype": WORDS[out]}
    build = ("compile_preshuffle_gemm", "compile_preshuffle_gemm_a8")
    modules = ("kernels.gemm.preshuffle_gemm",)
    return (Part(modules=modules, builders=build, values=values, offers={"M": 4096}, tensors=tensors),)


def _blockscale(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    """Older checkouts only: FlyDSL dropped the kernel in August 2026."""
    n, k = int(constexprs["N"]), int(constexprs["K"])
    tensors = {
        "arg_c": _flat("bf16", 16 * n),
        "arg_a": _flat("i8", 16 * k),
        "arg_b": _flat("i8", n * k),
        "arg_scale_a": _flat("f32", 16 * (k // 128)),
        "arg_scale_b": _flat("f32", (n // 128 or 1) * (k // 128)),
    }
    values = {**constexprs, "out_dtype": "bf16"}
    modules = ("kernels.gemm.blockscale_preshuffle_gemm",)
    build = ("compile_blockscale_preshuffle_gemm",)
    return (Part(modules=modules, builders=build, values=values, offers={"M": 4096}, tensors=tensors),)


def _rowscale(module: str, builder: str) -> Callable[[str, Constexprs], tuple[Part, ...]]:
    def parts(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
        k = int(constexprs["K"])
        tensors = {
            "A": _flat("i8", 256 * k),
            "B_T": _flat("i8", 256 * k, "static"),
            "C": _flat("bf16", 256 * 256),
            "A_scale": _flat("f32", 256),
            "B_scale": _flat("f32", 256, "static"),
        }
        return (Part(modules=(module,), builders=(builder,), values=dict(constexprs), tensors=tensors),)

    return parts


def _fp4(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    m, n, k = (int(constexprs[name]) for name in ("M", "N", "K"))
    tensors = {
        "A": _flat("u8", m * k // 2),
        "B_T": _flat("u8", n * k // 2),
        "C": _flat("bf16", m * n),
        "A_scale": _flat("u8", m * k // 32),
        "B_scale": _flat("u8", n * k // 32),
    }
    values = {"K": k, "MN": [m, n]}
    modules = ("kernels.gemm.fp4_gemm_4wave",)
    return (Part(modules=modules, builders=("compile_fp4_gemm_4w",), values=values, tensors=tensors),)


def _hgemm(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    word = f"$GEMM_A16W16_DTYPE_{'BF16' if dtype == 'bf16' else 'FP16'}"
    tensors = {
        "out": [dtype, [256, 512]],
        "a": [dtype, [256, 1024]],
        "b": [dtype, [1024, 512], "column"],
        "bias": _flat(dtype, 512),
        "semaphore": _flat("i32", 1024),
        "signal": _flat("i32", 1024),
    }
    param = {
        "function": "make_gemm_a16w16_gfx950_param",
        "values": {"in_dtype_id": word, "out_dtype_id": word, **constexprs},
    }
    part = Part(
        modules=("kernels.gemm.gemm_a16w16_gfx950",),
        launchers=("gemm_a16w16_gfx950",),
        tensors=tensors,
        made={"param": param},
    )
    return (part,)


def _splitk(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    n, k = int(constexprs["n"]), int(constexprs["k"])
    tensors = {
        "C": [dtype, [256, n]],
        "A": [dtype, [256, k]],
        "B": [dtype, [n, k]],
        "BIAS": [dtype, [256, k]],
        "semaphore": _flat("i32", 1024),
        "signal": _flat("i32", 1024),
    }
    modules = ("kernels.gemm.hgemm_splitk",)
    values = {**constexprs, "dtype": dtype, "B_TO_LDS": int(constexprs["TILE_M"]) == 256}
    return (Part(modules=modules, builders=("compile_hgemm_kernel",), values=values, tensors=tensors),)


def _mxfp(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    strides = dict.fromkeys(
        (
            "a_row_stride",
            "a_batch_stride",
            "sca_row_stride",
            "sca_batch_stride",
            "c_row_stride",
            "c_batch_stride",
        ),
        -1,
    )
    values = {**constexprs, "a_dtype": dtype, "out_dtype": "bf16", "batch": 1, "waves_per_eu": 0, **strides}
    part = Part(modules=("kernels.gemm.mxfp4_preshuffle",), launchers=("launch_gemm",), values=values)
    return (part,)


def _tiles(dtype: str, n: int, k: int, *tiles: tuple[int, int, int], **more: Constexpr) -> Any:
    names = ("tile_m", "tile_n", "tile_k")
    return tuple((dtype, {"N": n, "K": k, **dict(zip(names, tile, strict=True)), **more}) for tile in tiles)


WIDE: dict[str, Constexpr] = {"block_m": 256, "block_n": 256, "block_k": 64, "stages": 2, "m_waves": 2, "n_waves": 4}
SMALL: dict[str, Constexpr] = {"block_m": 64, "block_n": 64, "block_k": 128, "stages": 2, "m_waves": 2, "n_waves": 2}
ROWSCALE: tuple[tuple[str, dict[str, Constexpr]], ...] = (
    ("fp8", {"K": 8192, "BLOCK_M": 256, "BLOCK_N": 256}),
    ("fp8", {"K": 8192, "BLOCK_M": 128, "BLOCK_N": 256}),
    ("fp8", {"K": 8192, "BLOCK_M": 256, "BLOCK_N": 256, "b_preshuffled": True}),
)

KERNELS = (
    Kernel(
        op_type="preshuffle_gemm",
        family="gemm",
        parts=_preshuffle,
        cases=(
            *_tiles("fp8", 5120, 8192, (16, 64, 512), (32, 128, 256), (64, 256, 128), (128, 128, 128)),
            *_tiles("int8", 5120, 8192, (16, 64, 512), (32, 128, 256), (64, 256, 128), (128, 128, 128)),
            *_tiles("bf16", 5120, 8192, (16, 64, 256), (64, 256, 64), (128, 128, 64)),
            *_tiles("f16", 5120, 8192, (16, 64, 256), (64, 256, 64), (128, 128, 64)),
            *_tiles("fp8", 5120, 8192, (64, 256, 128), use_async_copy=True),
            *_tiles("bf16", 5120, 8192, (64, 256, 64), use_async_copy=True),
            *_tiles("bf16", 5120, 8192, (64, 256, 64), epilogue="bias_silu"),
        ),
    ),
    Kernel(
        op_type="blockscale_preshuffle_gemm",
        family="gemm",
        parts=_blockscale,
        cases=_tiles("fp8", 1536, 7168, (16, 64, 256), (64, 128, 128)),
    ),
    Kernel(
        op_type="fp8_gemm_4wave",
        family="gemm",
        parts=_rowscale("kernels.gemm.fp8_gemm_4wave", "compile_fp8_gemm_4w"),
        cases=ROWSCALE,
    ),
    Kernel(
        op_type="fp8_gemm_8wave",
        family="gemm",
        parts=_rowscale("kernels.gemm.fp8_gemm_8wave", "compile_fp8_gemm_8w"),
        cases=ROWSCALE,
    ),
    Kernel(
        op_type="fp4_gemm_4wave",
        family="gemm",
        parts=_fp4,
        cases=(("fp4", {"M": 4096, "N": 4096, "K": 8192}), ("fp4", {"M": 256, "N": 5120, "K": 8192})),
    ),
    Kernel(
        op_type="hgemm",
        family="gemm",
        parts=_hgemm,
        cases=(
            ("bf16", {**WIDE, "use_half_tile_interleaved": True}),
            ("f16", {**WIDE, "use_half_tile_interleaved": True}),
            ("bf16", {**WIDE, "use_half_tile_interleaved": True, "has_bias": True}),
            ("bf16", SMALL),
            ("bf16", {**SMALL, "split_k": 4}),
        ),
    ),
    Kernel(
        op_type="mxfp_gemm",
        family="gemm",
        parts=_mxfp,
        cases=(
            *_tiles("fp4", 8192, 8192, (32, 128, 256), (64, 256, 256), b_dtype="fp4"),
            *_tiles("fp6", 8192, 8192, (64, 256, 256), b_dtype="fp4"),
            *_tiles("fp8", 8192, 8192, (32, 128, 256), (64, 256, 256), b_dtype="fp4"),
            *_tiles("fp8", 8192, 8192, (64, 256, 256), b_dtype="fp8"),
        ),
    ),
)
REPLACED = (Kernel(op_type="hgemm_splitk", family="gemm", parts=_splitk, cases=()),)
