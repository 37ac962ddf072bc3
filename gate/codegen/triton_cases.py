"""Knows how the Triton baselines are compiled for a shape: block sizes, and what Triton specialises its code on.

Triton compiles in whether an integer is 1 or a multiple of 16, and that a tensor is aligned and smaller than 2 GiB;
the launcher works that out from the arguments, so a case names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gate.binding.families.kernel import Part
from gate.codegen.keys import CompileCase, Unsupported
from gate.model.codegen import Constexpr
from gate.model.shape import Shape

NAME = "triton"
TYPES: Mapping[str, str] = {"bf16": "bf16", "f16": "fp16", "fp16": "fp16", "f32": "fp32", "fp32": "fp32"}
WAVE = 64
ADD_BLOCK = 4096
MAX_ROW = 65536
POINTERS: Mapping[str, tuple[str, ...]] = {
    "rmsnorm": ("x", "weight", "out"),
    "softmax": ("x", "out"),
    "vec_add": ("a", "b", "out"),
    "gemm": ("a", "b", "out"),
}
# BM, BN, BK, waves and stages: the first of the sizes that the baseline tries, for few rows and for many.
FLAT_TILE, LARGE_TILE = (32, 64, 128, 4, 2), (128, 128, 64, 4, 2)
FEW_ROWS = 64


def compile_case(shape: Shape) -> CompileCase | Unsupported:
    """The case of the Triton baseline for a ledger shape, or the reason there is none. Never raises for a shape."""
    make = OPS.get(shape.op_type)
    dtype = TYPES.get(shape.dtype)
    sizes = {name: int(value) for name, value in shape.args.items() if isinstance(value, (int, float))}
    if make is None or dtype is None:
        reason = f"no Triton baseline for {shape.op_type} {shape.dtype}"
        return Unsupported(op_type=shape.op_type, dtype=shape.dtype, reason=reason)
    try:
        return case_of(shape.op_type, shape.dtype, make(sizes))
    except (KeyError, ValueError) as error:
        return Unsupported(op_type=shape.op_type, dtype=shape.dtype, reason=f"Triton baseline: {error}")


def case_of(op_type: str, dtype: str, constexprs: Mapping[str, Constexpr]) -> CompileCase:
    """The case with these constexprs, with the signature that a worker compiles."""
    values = ",".join(f"{name}={value}" for name, value in constexprs.items() if name != "provider")
    part = Part(modules=(), launchers=(op_type,), values=_request(op_type, TYPES[dtype], constexprs))
    return CompileCase(
        compile_key=f"{op_type}/{dtype}/triton,{values}",
        op_type=op_type,
        dtype=dtype,
        constexprs=dict(constexprs),
        parts=(part,),
    )


def _request(op_type: str, element: str, constexprs: Mapping[str, Constexpr]) -> dict[str, Any]:
    """What Triton is asked: types of the arguments, constants, which arguments are multiples of 16, and options."""
    signature: dict[str, str] = dict.fromkeys(POINTERS[op_type], f"*{element}")
    constants: dict[str, Constexpr] = {}
    options: dict[str, Constexpr] = {}
    aligned: list[str] = []
    for name, value in constexprs.items():
        if name in ("num_warps", "num_stages"):
            options[name] = value
        elif name.isupper():
            signature[name], constants[name] = "constexpr", value
        elif value == "one":
            signature[name], constants[name] = "constexpr", 1
        elif name != "provider":
            signature[name] = "fp32" if value == "float" else "i32"
            aligned += [name] if value == "16" else []
    return {"signature": signature, "constants": constants, "aligned": aligned, "options": options}


def _kind(value: int) -> str:
    """How Triton specialises an integer."""
    if value < 1:
        raise ValueError(f"a size must be positive, got {value}")
    return "one" if value == 1 else "16" if value % 16 == 0 else "any"


def _block(n: int) -> int:
    if n > MAX_ROW:
        raise ValueError(f"one program holds a whole row: N = {n} is above {MAX_ROW}")
    return 1 << max(0, n - 1).bit_length()


def _waves(columns: int) -> int:
    return max(1, min(16, columns // (16 * WAVE)))


def _rmsnorm(sizes: Mapping[str, int]) -> dict[str, Constexpr]:
    block = _block(sizes["N"])
    kind = _kind(sizes["N"])
    return {"provider": NAME, "columns": kind, "eps": "float", "BLOCK": block, "num_warps": _waves(block)}


def _softmax(sizes: Mapping[str, int]) -> dict[str, Constexpr]:
    block = _block(sizes["N"])
    rows = max(1, min(_block_of(sizes["M"]), 2048 // block))
    kinds = {"rows": _kind(sizes["M"]), "columns": _kind(sizes["N"])}
    return {"provider": NAME, **kinds, "BLOCK": block, "ROWS": rows, "num_warps": _waves(block * rows)}


def _block_of(m: int) -> int:
    return 1 << max(0, m - 1).bit_length()


def _vec_add(sizes: Mapping[str, int]) -> dict[str, Constexpr]:
    count = _kind(sizes["N"] * sizes.get("M", 1))
    return {"provider": NAME, "count": count, "BLOCK": ADD_BLOCK, "num_warps": 8}


def _gemm(sizes: Mapping[str, int]) -> dict[str, Constexpr]:
    bm, bn, bk, waves, stages = FLAT_TILE if sizes["M"] <= FEW_ROWS else LARGE_TILE
    kinds: dict[str, Constexpr] = {name.lower(): _kind(sizes[name]) for name in ("M", "N", "K")}
    tile = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": waves, "num_stages": stages}
    return {"provider": NAME, **kinds, **tile}


OPS: Mapping[str, Callable[[Mapping[str, int]], dict[str, Constexpr]]] = {
    "rmsnorm": _rmsnorm,
    "softmax": _softmax,
    "vec_add": _vec_add,
    "gemm": _gemm,
}
