"""PyTorch's per-token quantisation: no operator of its own, so several."""

from __future__ import annotations

from typing import Any

import torch

from gate.replay.codes import largest
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.pytorch.common import FLOATS, torch_kernel


def coded(values: Any, like: Any) -> Tensors:
    """Rows as codes of the dtype of `like`, with a scale (M, 1); a row of zeros gets the scale 1."""
    limit = largest(like)
    wide = values.float()
    scale = wide.abs().amax(dim=-1, keepdim=True) / limit
    scale = torch.where(scale == 0, 1.0, scale)
    parts = (wide / scale).clamp(-limit, limit)
    return {"out": (parts if like.is_floating_point() else parts.round()).to(like.dtype), "scale": scale}


@torch_kernel(
    op="quant",
    dtypes=FLOATS,
    detail="largest magnitude, division and cast as separate operators",
    includes_allocation=True,
)
def quant(case: Case, tensors: Tensors) -> Launch:
    x, out = tensors["x"], tensors["out"]
    return lambda: coded(x, out)
