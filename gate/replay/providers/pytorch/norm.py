"""PyTorch's kernels over rows and elements."""

from __future__ import annotations

import torch

from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch, kernel
from gate.replay.providers.pytorch.common import FLOATS, own_output, version


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
    return own_output("out", lambda: torch.nn.functional.rms_norm(x, columns, weight, eps))


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
