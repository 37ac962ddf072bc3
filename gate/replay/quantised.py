"""How narrow matrix operands are stored: codes with scales, in random values and read back into fp32.

A form names both. `bf16` and `f16` have no scale. `fp8_rows` and `int8_rows` have one fp32 scale a row, `fp8_groups`
one for each 128 of a row, `fp8_blocks` one for each 128 by 128 of the last two axes. `fp8_mx` and `fp4_mx` are the
microscaling formats of the OCP: an e8m0 exponent (127 means 1) for each 32 of a row; two e2m1 values share a byte,
the even one in the low half. The last group or block of an axis may be short.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from gate.replay.op import Tensors

if TYPE_CHECKING:
    from gate.replay.device import Memory

PLAIN = ("bf16", "f16")
MX_GROUP, BLOCK = 32, 128
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1_RMS = math.sqrt(sum(value * value for value in E2M1) / len(E2M1))
# Far from the ends of e4m3fn (448), e4m3fnuz (240) and int8, and wide enough to use their range.
CODE_RMS = {"fp8": 16.0, "int8": 30.0}
UNIT_EXPONENT = 127
SPREAD = 0.15


def code_dtype(form: str) -> str:
    """The dtype of the codes, as `Spec` writes it."""
    return "uint8" if form == "fp4_mx" else form.split("_")[0]


def code_shape(shape: tuple[int, ...], form: str) -> tuple[int, ...]:
    """The shape of the codes of an operand of that logical shape. Raises ValueError for an odd row of fp4."""
    if form != "fp4_mx":
        return shape
    if shape[-1] % 2:
        raise ValueError(f"two fp4 values share a byte: a row of {shape[-1]} cannot be stored")
    return (*shape[:-1], shape[-1] // 2)


def scale_shape(shape: tuple[int, ...], form: str) -> tuple[int, ...] | None:
    """The shape of the scales, or None where there are none."""
    kind = form.partition("_")[2]
    if kind == "blocks":
        return (*shape[:-2], -(-shape[-2] // BLOCK), -(-shape[-1] // BLOCK))
    if kind in ("groups", "mx"):
        return (*shape[:-1], -(-shape[-1] // (BLOCK if kind == "groups" else MX_GROUP)))
    return shape[:-1] if kind == "rows" else None


def operand_bytes(shape: tuple[int, ...], form: str) -> float:
    """Bytes of codes and scales."""
    scales = scale_shape(shape, form)
    width = {"bf16": 2, "f16": 2}.get(form, 1)
    scale_width = 1 if form.endswith("_mx") else 4
    return float(
        math.prod(code_shape(shape, form)) * width + (0 if scales is None else math.prod(scales) * scale_width)
    )


def exponents(rms: float) -> tuple[int, int]:
    """The range [low, high) of e8m0 exponents whose even draw over e2m1 codes, drawn evenly, comes nearest to `rms`."""
    middle = UNIT_EXPONENT + round(math.log2(rms / E2M1_RMS))
    choices = [(low, low + width) for width in (2, 3, 4) for low in range(middle - 4, middle + 2)]
    return min(choices, key=lambda choice: abs(math.log(_exponents_rms(*choice) / rms)))


def _exponents_rms(low: int, high: int) -> float:
    squares = sum(4.0 ** (exponent - UNIT_EXPONENT) for exponent in range(low, high))
    return E2M1_RMS * math.sqrt(squares / (high - low))


def reached_rms(form: str, rms: float) -> float:
    """The root mean square that `fill_operand` really gives: powers of two come near to `rms` only."""
    if not form.endswith("_mx"):
        return rms
    codes = 1.0 if form == "fp4_mx" else E2M1_RMS / CODE_RMS["fp8"]
    return _exponents_rms(*exponents(rms * codes)) / codes


def fill_operand(
    memory: Memory, copies: int, seed: int, *, name: str, shape: tuple[int, ...], form: str, rms: float
) -> Tensors:
    """Random codes `name` and, where the form has them, scales `scale_<name>`, of about that root mean square."""
    codes = memory.stack(copies, code_shape(shape, form), code_dtype(form))
    scales = scale_shape(shape, form)
    if scales is None:
        return {name: memory.normal(codes, seed, rms)}
    if form == "fp4_mx":
        made = {name: memory.integers(codes, seed, 0, 256)}
    else:
        made = {name: memory.normal(codes, seed, CODE_RMS[code_dtype(form)])}
    factor = memory.stack(copies, scales, "uint8" if form.endswith("_mx") else "fp32")
    if form.endswith("_mx"):
        wanted = rms if form == "fp4_mx" else rms * E2M1_RMS / CODE_RMS["fp8"]
        made[f"scale_{name}"] = memory.integers(factor, seed + 1, *exponents(wanted))
    else:
        # Scales that differ by up to a factor of two show which one was used.
        spread = memory.normal(factor, seed + 1, SPREAD).add_(1.0).clamp_(0.67, 1.33)
        made[f"scale_{name}"] = spread.mul_(rms / CODE_RMS[code_dtype(form)])
    return made


@functools.cache
def _e2m1_table(place: Any) -> Any:
    """The values of the sixteen codes; kept, since a captured call may not copy from the host."""
    import torch

    return torch.tensor([*E2M1, *(-value for value in E2M1)], dtype=torch.float32, device=place)


def unpack_fp4(packed: Any) -> Any:
    """The fp32 values of e2m1 pairs, twice as long a last axis."""
    import torch

    halves = torch.stack((packed & 15, packed >> 4), dim=-1)
    return _e2m1_table(packed.device)[halves.flatten(-2).int()]


def widen(codes: Any, scales: Any, form: str) -> Any:
    """The fp32 values of an operand; `scales` is ignored where the form has none."""
    values = unpack_fp4(codes) if form == "fp4_mx" else codes.float()
    kind = form.partition("_")[2]
    if kind == "rows":
        return values * scales.unsqueeze(-1)
    if kind == "mx":
        factors = (scales.float() - UNIT_EXPONENT).exp2()
        return values * factors.repeat_interleave(MX_GROUP, -1)[..., : values.shape[-1]]
    if kind == "blocks":
        scales = scales.repeat_interleave(BLOCK, -2)[..., : values.shape[-2], :]
    if kind in ("groups", "blocks"):
        return values * scales.repeat_interleave(BLOCK, -1)[..., : values.shape[-1]]
    return values


def widened(tensors: Tensors, name: str, form: str) -> Any:
    """The fp32 values of the operand that `fill_operand` made under that name."""
    return widen(tensors[name], tensors.get(f"scale_{name}"), form)
