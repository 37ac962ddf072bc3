"""Quantisation in blocks of 32 with shared exponents, and the ordering of the exponents for experts."""

from __future__ import annotations

from gate.binding.families.kernel import ROWS, Constexprs, Kernel, Part
from gate.binding.families.norm import QUANTS

MODULE = "kernels.mega_moe.quant"


def _mx_quant(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    n = int(constexprs["n"])
    tensors = {
        "x": ["bf16", [ROWS, n]],
        "y": ["u8", [ROWS, n // 2 if dtype == "fp4" else n]],
        "scale": ["u8", [ROWS, n // 32]],
    }
    values = {"n": n, "quant_mode": dtype}
    return (Part(modules=(MODULE,), builders=("build_per_1x32_mx_quant_module",), values=values, tensors=tensors),)


def _scale_sort(dtype: str, constexprs: Constexprs) -> tuple[Part, ...]:
    columns = int(constexprs["cols"]) // 32
    tensors = {
        "scale": ["u8", [ROWS, columns]],
        "sorted_ids": ["i32", [64]],
        "num_valid": ["i32", [2]],
        "out_scale": ["u8", [64, columns]],
    }
    build = ("build_mxfp4_moe_scale_sort_module",)
    return (Part(modules=(MODULE,), builders=build, values=dict(constexprs), tensors=tensors),)


KERNELS = (
    *QUANTS,
    Kernel(
        op_type="mx_quant",
        family="quant",
        parts=_mx_quant,
        occupancy_bound=True,
        cases=(("fp4", {"n": 7168}), ("fp8", {"n": 7168})),
    ),
    Kernel(op_type="mx_scale_sort", family="quant", parts=_scale_sort, cases=(("fp4", {"cols": 7168}),)),
)
