"""Which shapes FlyDSL's kernels serve on their vectorised path, as far as the arguments tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gate.analysis.physics import ELEMENT_BYTES
from gate.model.outcome import AnyOutcome
from gate.model.shape import Shape

_PATH = re.compile(r"\bpath=([\w-]+)")
SLOW_WORDS = ("generic", "scalar", "fallback")
# Row-parallel kernels take 256 lanes of 16 bytes a step: whole steps only, 16-bit elements only.
ROW_STEP = 2048
WAVE = 64
LANES_PER_VECTOR = (16, 8, 4, 2, 1)


class FastPath(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the fast path was (or would be) taken, by what evidence, and what the shape would have to satisfy."""

    taken: bool
    evidence: str
    remedy: str


def _rows(args: Mapping[str, Any], dtype: str) -> str | None:
    n = args["N"]
    if ELEMENT_BYTES.get(dtype.lower()) != 2:
        return f"{dtype} has no vector path"
    return f"N={n} is no multiple of {ROW_STEP}" if n % ROW_STEP else None


def _gemm(args: Mapping[str, Any], dtype: str) -> str | None:
    step = 128 if ELEMENT_BYTES.get(dtype.lower(), 2) < 2 else 64
    ragged = [f"{name}={args[name]}" for name, unit in (("N", 16), ("K", step)) if args[name] % unit]
    return f"{' and '.join(ragged)} leave a ragged tile" if ragged else None


def _topk_gating(args: Mapping[str, Any], dtype: str) -> str | None:
    experts = args["num_experts"]
    for lanes in LANES_PER_VECTOR:
        threads = experts // lanes
        if experts % lanes == 0 and threads & (threads - 1) == 0 and 0 < threads <= WAVE:
            return None
    return f"{experts} experts fit no layout of a power of two of lanes"


CONDITIONS: dict[str, Callable[[Mapping[str, Any], str], str | None]] = {
    "rmsnorm": _rows,
    "layernorm": _rows,
    "softmax": _rows,
    "gemm": _gemm,
    "topk_gating_softmax": _topk_gating,
}


def fast_path(shape: Shape, outcome: AnyOutcome | None) -> FastPath | None:
    """What the row itself says of its path, else what the shape's arguments imply; None where neither tells."""
    why = _condition(shape)
    named = _PATH.search(outcome.provider_detail or "") if outcome is not None else None
    if named is not None:
        slow = any(word in named[1] for word in SLOW_WORDS)
        remedy = f"{why}: pad or add a tail to the vector path" if why else "the shape qualifies: switch the path on"
        return FastPath(taken=not slow, evidence=f"the kernel took path {named[1]}", remedy=remedy)
    if shape.op_type not in CONDITIONS:
        return None
    if why is None:
        return FastPath(taken=True, evidence="the shape qualifies for the vector path", remedy="")
    return FastPath(taken=False, evidence=f"{why}, which the vector path needs", remedy="add a tail to the vector path")


def _condition(shape: Shape) -> str | None:
    condition = CONDITIONS.get(shape.op_type)
    if condition is None:
        return None
    try:
        return condition(shape.args, shape.dtype)
    except (KeyError, TypeError):
        return None
