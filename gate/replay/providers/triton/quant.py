"""Triton's per-token quantisation."""

from __future__ import annotations

from gate.replay.codes import largest
from gate.replay.op import Case, Tensors
from gate.replay.providers.triton.calls import Call, triton_kernel
from gate.replay.providers.triton.common import FLOATS
from gate.replay.providers.triton.kernels import quant as kernels
from gate.replay.providers.triton.norm import resident, row_call


@triton_kernel(op="quant", dtypes=FLOATS, detail="rows in registers, several short rows a program")
def quant(case: Case, tensors: Tensors) -> Call:
    out = tensors["out"]
    given = (tensors["x"], out, tensors["scale"])
    rounded = not out.is_floating_point()
    functions = (kernels.quant, kernels.quant_looped)
    return row_call(case, functions, given, largest(out), options=resident(case), ROUND=rounded)
