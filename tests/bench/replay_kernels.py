"""A Triton rmsnorm with a dial: `extra` rounds of dependent arithmetic seed a slowdown of known size.

The rounds are those of the case's `extra`, or of the worker's command `turn`; they are an argument that nothing is
specialised for, so that every dial is one binary.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, kernel


@triton.jit(do_not_specialize=["extra"])
def dialled(x, weight, out, columns, eps, extra, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    gain = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, axis=0) / columns + eps)
    # Each round needs the one before; its effect stays below the output's rounding.
    for _ in range(extra):
        scale = scale * 1.0000001 - 1e-9
    tl.store(out + row * columns + column, (value * scale * gain).to(out.dtype.element_ty), mask=inside)


class Dial:
    """The rounds of all later launches; None leaves them to the case."""

    rounds: int | None = None


DIAL = Dial()


def _options(case: Case) -> dict[str, Any]:
    block = triton.next_power_of_2(case.dim("N"))
    return {"BLOCK": block, "num_warps": max(1, min(16, block // 512))}


@kernel(op="rmsnorm", provider="triton", dtypes=("bf16", "fp16", "fp32"), detail="rmsnorm with a dial")
def rmsnorm(case: Case, tensors: Tensors) -> Launch:
    x, weight, out, options = tensors["x"], tensors["weight"], tensors["out"], _options(case)
    columns, extra, grid = case.dim("N"), int(case.args.get("extra", 0)), (case.dim("M"),)

    def launch() -> None:
        rounds = extra if DIAL.rounds is None else DIAL.rounds
        dialled[grid](x, weight, out, columns, 1e-5, rounds, **options)

    return launch
