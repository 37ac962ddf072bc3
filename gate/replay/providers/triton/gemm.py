"""Triton matrix products."""

from __future__ import annotations

import triton

from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, kernel
from gate.replay.providers.triton import tuning
from gate.replay.providers.triton.common import HALVES, torch_dtype, version
from gate.replay.providers.triton.kernels import gemm as kernels


def _compile_gemm(case: Case) -> None:
    x = torch_dtype(case)
    m, n, k = (case.dim(name) for name in ("M", "N", "K"))
    for config in tuning.configs_for(m, n, k):
        kernels.gemm.warmup(x, x, x, m, n, k, grid=(1,), **config)


@kernel(
    op="gemm",
    provider="triton",
    dtypes=HALVES,
    detail="tiled product in grouped order, the quickest of a few tile sizes",
    compiler=_compile_gemm,
    version=version,
)
def gemm(case: Case, tensors: Tensors) -> Launch:
    a, b, out = tensors["a"], tensors["b"], tensors["out"]
    m, n, k = (case.dim(name) for name in ("M", "N", "K"))
    config = tuning.tuned(a, b, out)
    grid = (triton.cdiv(m, config["BM"]) * triton.cdiv(n, config["BN"]),)

    def launch() -> None:
        kernels.gemm[grid](a, b, out, m, n, k, **config)

    return launch
