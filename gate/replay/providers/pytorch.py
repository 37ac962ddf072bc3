"""PyTorch's own kernels: the reference provider, and a baseline wherever it has a fused kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, ProviderAdapter, adapter_from, kernel

FLOATS = ("bf16", "fp16", "f16", "fp32", "f32")
HALVES = ("bf16", "fp16", "f16")


def version() -> str | None:
    """torch's git commit."""
    commit: str | None = torch.version.git_version
    return commit


def _own_output(name: str, call: Callable[[], Any]) -> Launch:
    """A launch whose output torch allocates, because the op takes no `out`."""
    return lambda: {name: call()}


@kernel(
    op="rmsnorm",
    provider="pytorch",
    dtypes=FLOATS,
    detail="torch.nn.functional.rms_norm",
    includes_allocation=True,
    version=version,
)
def rmsnorm(case: Case, tensors: Tensors) -> Launch:
    x, weight, eps = tensors["x"], tensors["weight"], float(case.args.get("eps", 1e-5))
    columns = (case.dim("N"),)
    return _own_output("out", lambda: torch.nn.functional.rms_norm(x, columns, weight, eps))


@kernel(op="softmax", provider="pytorch", dtypes=FLOATS, detail="torch.softmax(out=)", version=version)
def softmax(case: Case, tensors: Tensors) -> Launch:
    x, out = tensors["x"], tensors["out"]

    def launch() -> None:
        torch.softmax(x, -1, out=out)

    return launch


@kernel(op="vec_add", provider="pytorch", dtypes=FLOATS, detail="torch.add(out=)", version=version)
def vec_add(case: Case, tensors: Tensors) -> Launch:
    a, b, out = tensors["a"], tensors["b"], tensors["out"]

    def launch() -> None:
        torch.add(a, b, out=out)

    return launch


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


def get_adapter(op_type: str) -> ProviderAdapter:
    """The kernel for an op. Raises NoKernel."""
    import sys

    return adapter_from(sys.modules[__name__], op_type)
