"""PyTorch's matrix products."""

from __future__ import annotations

import torch

from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, kernel
from gate.replay.providers.pytorch.common import HALVES, version


@kernel(
    op="gemm",
    provider="pytorch",
    dtypes=HALVES,
    detail="torch.mm(out=), the BLAS of the torch build (opaque choice of kernel)",
    version=version,
)
def gemm(case: Case, tensors: Tensors) -> Launch:
    a, b, out = tensors["a"], tensors["b"].t(), tensors["out"]

    def launch() -> None:
        torch.mm(a, b, out=out)

    return launch
