"""PyTorch's kernels over rows and elements; a normalisation that torch has no fused kernel for is several operators."""

from __future__ import annotations

from typing import Any

import torch

from gate.replay.norms import EPS
from gate.replay.op import Case, Tensors
from gate.replay.provider import Launch
from gate.replay.providers.pytorch.common import FLOATS, torch_kernel
from gate.replay.providers.pytorch.quant import coded


def normalised(case: Case, tensors: Tensors, x: Any) -> Any:
    """torch's RMSNorm, or its LayerNorm where the case has a bias."""
    columns, eps = (case.dim("N"),), float(case.args.get("eps", EPS))
    if "bias" in tensors:
        return torch.nn.functional.layer_norm(x, columns, tensors["weight"], tensors["bias"], eps)
    return torch.nn.functional.rms_norm(x, columns, tensors["weight"], eps)


def _operators(case: Case, tensors: Tensors) -> Tensors:
    """Addition, normalisation, multiplication by column and quantisation, as far as the op has them."""
    added = "residual" in tensors
    total = tensors["x"] + tensors["residual"] if added else tensors["x"]
    out = normalised(case, tensors, total)
    out = out * tensors["smooth"] if "smooth" in tensors else out
    found = coded(out, tensors["out"]) if "scale" in tensors else {"out": out}
    return {**found, "residual_out": total} if added else found


def _norm(op: str, detail: str) -> Any:
    """The kernel of one normalisation; torch allocates all that it returns."""

    def bind(case: Case, tensors: Tensors) -> Launch:
        return lambda: _operators(case, tensors)

    return torch_kernel(op=op, dtypes=FLOATS, detail=detail, includes_allocation=True)(bind)


_RMS, _LAYER = "torch.nn.functional.rms_norm", "torch.nn.functional.layer_norm"
_CODES = "largest magnitude, division and cast as separate operators"

rmsnorm = _norm("rmsnorm", _RMS)
layernorm = _norm("layernorm", _LAYER)
fused_add_rmsnorm = _norm("fused_add_rmsnorm", f"torch.add, then {_RMS}")
layernorm_fused_add = _norm("layernorm_fused_add", f"torch.add, then {_LAYER}")
rmsnorm_dynamicquant = _norm("rmsnorm_dynamicquant", f"{_RMS}, then {_CODES}")
rmsnorm_smoothquant = _norm("rmsnorm_smoothquant", f"{_RMS}, torch.mul, then {_CODES}")
layernorm_dynamicquant = _norm("layernorm_dynamicquant", f"{_LAYER}, then {_CODES}")
layernorm_smoothquant = _norm("layernorm_smoothquant", f"{_LAYER}, torch.mul, then {_CODES}")
rmsnorm_fused_add_dynamicquant = _norm("rmsnorm_fused_add_dynamicquant", f"torch.add, {_RMS}, then {_CODES}")
rmsnorm_fused_add_smoothquant = _norm("rmsnorm_fused_add_smoothquant", f"torch.add, {_RMS}, torch.mul, then {_CODES}")
layernorm_fused_add_dynamicquant = _norm("layernorm_fused_add_dynamicquant", f"torch.add, {_LAYER}, then {_CODES}")
layernorm_fused_add_smoothquant = _norm(
    "layernorm_fused_add_smoothquant", f"torch.add, {_LAYER}, torch.mul, then {_CODES}"
)


@torch_kernel(
    op="rmsnorm_bwd",
    dtypes=FLOATS,
    detail="products and sums as separate operators in fp32: torch's own backward rounds dweight to the weight's dtype",
    includes_allocation=True,
)
def rmsnorm_bwd(case: Case, tensors: Tensors) -> Launch:
    x, dy, weight, rstd = (tensors[name] for name in ("x", "dy", "weight", "rstd"))

    def launch() -> Tensors:
        hat, wide = x.float() * rstd, dy.float()
        weighted = wide * weight
        dx = (weighted - hat * (hat * weighted).mean(dim=-1, keepdim=True)) * rstd
        return {"dx": dx.to(x.dtype), "dweight": (wide * hat).sum(dim=0)}

    return launch


@torch_kernel(op="softmax", dtypes=FLOATS, detail="torch.softmax(out=)")
def softmax(case: Case, tensors: Tensors) -> Launch:
    x, out = tensors["x"], tensors["out"]

    def launch() -> None:
        torch.softmax(x, -1, out=out)

    return launch


@torch_kernel(op="vec_add", dtypes=FLOATS, detail="torch.add(out=)")
def vec_add(case: Case, tensors: Tensors) -> Launch:
    a, b, out = tensors["a"], tensors["b"], tensors["out"]

    def launch() -> None:
        torch.add(a, b, out=out)

    return launch
