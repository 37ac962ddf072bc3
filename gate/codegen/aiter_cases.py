"""Knows which of AITER's Triton functions serves a ledger shape, and with what arguments it is called.

AITER itself chooses the kernel and its tile from the sizes, so a case names the call and the worker sees the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gate.binding.families.kernel import Part, Refusal, element, positive
from gate.codegen.keys import CompileCase, Unsupported
from gate.model.codegen import Constexpr
from gate.model.shape import Shape

# What a toolchain calls these kernels, and the provider of their records.
NAME = "aiter_triton"
DTYPES: Mapping[str, str] = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
EPS = 1e-5


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One function of AITER: where it may be (newest first), its name, the sizes it needs, and its arguments.

    An argument is a shape (a tensor of the case's dtype), a number, or the name of a dtype.
    """

    modules: tuple[str, ...]
    function: str
    sizes: tuple[str, ...]
    dtypes: tuple[str, ...]
    arguments: Callable[[Mapping[str, Any], str], list[Any]]


ENTRIES: Mapping[str, Entry] = {
    "rmsnorm": Entry(
        modules=("aiter.ops.triton.normalization.rmsnorm", "aiter.ops.triton.rmsnorm"),
        function="rms_norm",
        sizes=("M", "N"),
        dtypes=("bf16", "f16", "f32"),
        arguments=lambda size, _: [[size["M"], size["N"]], [size["N"]], EPS],
    ),
    "layernorm": Entry(
        modules=("aiter.ops.triton.normalization.norm", "aiter.ops.triton.norm"),
        function="layer_norm",
        sizes=("M", "N"),
        dtypes=("bf16", "f16", "f32"),
        arguments=lambda size, _: [[size["M"], size["N"]], [size["N"]], [size["N"]], EPS],
    ),
    "softmax": Entry(
        modules=("aiter.ops.triton.softmax",),
        function="softmax",
        sizes=("M", "N"),
        dtypes=("bf16", "f16", "f32"),
        arguments=lambda size, _: [[size["M"], size["N"]]],
    ),
    "gemm": Entry(
        modules=("aiter.ops.triton.gemm.basic.gemm_a16w16", "aiter.ops.triton.gemm_a16w16"),
        function="gemm_a16w16",
        sizes=("M", "N", "K"),
        dtypes=("bf16", "f16"),
        arguments=lambda size, dtype: [[size["M"], size["K"]], [size["N"], size["K"]], None, dtype],
    ),
}


def compile_case(shape: Shape) -> CompileCase | Unsupported:
    """The case of AITER's Triton kernel for a ledger shape, or the reason there is none. Never raises for a shape."""
    entry, dtype = ENTRIES.get(shape.op_type), element(shape.dtype)
    try:
        if entry is None or dtype not in entry.dtypes:
            raise Refusal(f"no Triton function of AITER is known for {shape.op_type} {shape.dtype}")
        sizes: dict[str, Constexpr] = {name: positive(shape.args, name) for name in entry.sizes}
    except Refusal as refusal:
        return Unsupported(op_type=shape.op_type, dtype=shape.dtype, reason=str(refusal))
    return case_of(shape.op_type, dtype, {"provider": NAME, **sizes})


def case_of(op_type: str, dtype: str, constexprs: Mapping[str, Constexpr]) -> CompileCase:
    """The case with these sizes, with the call that a worker makes."""
    entry = ENTRIES[op_type]
    values = ",".join(f"{name}={constexprs[name]}" for name in entry.sizes)
    call = {"dtype": DTYPES[dtype], "arguments": entry.arguments(constexprs, DTYPES[dtype])}
    return CompileCase(
        compile_key=f"{op_type}/{dtype}/{NAME},{values}",
        op_type=op_type,
        dtype=dtype,
        constexprs=dict(constexprs),
        parts=(Part(modules=entry.modules, launchers=(entry.function,), values=call),),
    )
