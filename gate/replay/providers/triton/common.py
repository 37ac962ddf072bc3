"""What the Triton kernels share."""

from __future__ import annotations

from typing import Any

import torch
import triton

from gate.replay.op import Case

FLOATS = ("bf16", "fp16", "f16", "fp32", "f32")
HALVES = ("bf16", "fp16", "f16")
TORCH = {"fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16", "bf16": "bfloat16"}


def version() -> str | None:
    """Triton's version."""
    found: str | None = triton.__version__
    return found


def torch_dtype(case: Case) -> Any:
    """The case's dtype as torch names it."""
    return getattr(torch, TORCH[case.dtype])
