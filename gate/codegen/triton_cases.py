"""Knows which ledger shapes share the code of a Triton baseline: their compile key.

Triton compiles in the sizes of tiles, whether an integer is 1 or a multiple of 16, and whether a tensor is smaller than
2 GiB. The provider itself says what it launches for a shape (`triton_worker.py` asks it), so a key is that of the
shape's own arguments, but for sizes that choose a tile by their power of two alone: one of those stands for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gate.binding.families.kernel import Part
from gate.codegen.keys import CompileCase, Unsupported
from gate.model.codegen import Constexpr
from gate.model.shape import Shape

NAME = "triton"
ROW_OPS = (
    *("rmsnorm", "fused_add_rmsnorm", "layernorm", "layernorm_fused_add", "softmax", "quant"),
    *(
        f"{norm}{added}_{kind}quant"
        for norm in ("rmsnorm", "layernorm")
        for added in ("", "_fused_add")
        for kind in ("dynamic", "smooth")
    ),
)
# The size of an op that chooses a tile by the next power of two, or none.
FREE: Mapping[str, str] = {**dict.fromkeys(ROW_OPS, "M"), "vec_add": "N", "fused_rope_cache": "seq_len"}
# Smaller sizes are kept as they are.
MANY = 16
# No tensor of so few elements reaches 2 GiB, with its elements of 4 bytes.
SMALL_ELEMENTS = 2**29


def compile_case(shape: Shape) -> CompileCase | Unsupported:
    """The case of the Triton baseline for a ledger shape. Never raises for a shape."""
    args = {name: value for name, value in shape.args.items() if isinstance(value, int | float | str | bool)}
    if len(args) != len(shape.args):
        reason = f"Triton baseline: {', '.join(sorted(shape.args.keys() - args.keys()))} is not one value"
        return Unsupported(op_type=shape.op_type, dtype=shape.dtype, reason=reason)
    return case_of(shape.op_type, shape.dtype, {"provider": NAME, **_standing(shape.op_type, args)})


def case_of(op_type: str, dtype: str, constexprs: Mapping[str, Constexpr]) -> CompileCase:
    """The case with these constexprs: the arguments of the shape that stands for all of its key."""
    args = {name: value for name, value in constexprs.items() if name != "provider"}
    values = ",".join(f"{name}={value}" for name, value in args.items())
    return CompileCase(
        compile_key=f"{op_type}/{dtype}/{NAME},{values}",
        op_type=op_type,
        dtype=dtype,
        constexprs=dict(constexprs),
        parts=(Part(modules=(), launchers=(op_type,), values={"dtype": dtype, "args": args}),),
    )


def _standing(op_type: str, args: dict[str, Constexpr]) -> dict[str, Constexpr]:
    name = FREE.get(op_type, "")
    value = args.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value <= MANY:
        return args
    power = 1 << (value - 1).bit_length()
    found = {**args, name: power if value % 16 == 0 else power - 1}
    sizes = [size for size in found.values() if isinstance(size, int) and size > 0]
    return found if math.prod(sizes) < SMALL_ELEMENTS else args
