"""How 8-bit codes with a scale a row are compared: as parts of the row's largest magnitude, whatever the code type."""

from __future__ import annotations

from typing import Any

from gate.replay.op import Case, Tensors, Tolerance

LARGEST_INT8 = 127.0
LIMITS = {
    "out as int8": Tolerance(
        atol=1.3 / LARGEST_INT8,
        rtol=0.0,
        why="a whole code, for kernels round to the nearest or toward zero; a third of one, as some round to 16 bits"
        " before they quantise",
    ),
    "out as fp8": Tolerance(
        atol=6e-6,
        rtol=6.7e-2,
        why="half a step of three mantissa bits and half the smallest subnormal, after a value that may be rounded to"
        " 16 bits first",
    ),
    "scale": Tolerance(atol=0.0, rtol=1e-2, why="the largest magnitude of a row, perhaps rounded to 16 bits first"),
}


def named(case: Case) -> str:
    """The compared name of the codes, which tells their type. Raises ValueError for another type."""
    dtype = case.args.get("out_dtype", "int8")
    if f"out as {dtype}" not in LIMITS:
        raise ValueError(f"out_dtype {dtype} is neither int8 nor fp8")
    return f"out as {dtype}"


def largest(codes: Any) -> float:
    """The largest code of a tensor's dtype: 127 for int8; e4m3 has 448, or 240 in CDNA 3's flavour."""
    import torch

    return float(torch.finfo(codes.dtype).max) if codes.is_floating_point() else LARGEST_INT8


def expected(case: Case, values: Any) -> Tensors:
    """The reference: fp32 rows (..., M, N) as parts of their largest magnitude, and that magnitude (..., M, 1)."""
    magnitude = values.abs().amax(dim=-1, keepdim=True)
    return {named(case): values / magnitude, "scale": magnitude}


def observed(case: Case, values: Any, outputs: Tensors) -> Tensors:
    """Codes and scale in the reference's terms; `values` are the fp32 rows that were to be quantised."""
    codes, scale = outputs["out"], outputs["scale"]
    magnitude = values.abs().amax(dim=-1, keepdim=True)
    return {named(case): codes.float() * scale / magnitude, "scale": scale * largest(codes)}
