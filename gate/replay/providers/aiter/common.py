"""What the bindings to AITER share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gate.replay.call import call, listed
from gate.replay.environment import package_commit, package_version
from gate.replay.op import Case, Tensors
from gate.replay.provider import Bind, KernelAdapter, Launch, kernel

FLOATS = ("bf16", "f16", "fp16", "f32", "fp32")
HALVES = ("bf16", "f16", "fp16")
# What AITER's row normalisations call the op's tensors.
NORM_TENSORS = {
    "out": "out",
    "input": "x",
    "residual_in": "residual",
    "residual_out": "residual_out",
    "xscale": "smooth",
    "yscale": "scale",
    "weight": "weight",
    "bias": "bias",
}
EPS = 1e-5
TORCH = {"bf16": "bfloat16", "f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32", "int8": "int8"}


def version() -> str | None:
    """The commit of the AITER checkout, else the installed version."""
    return package_commit("aiter") or package_version("aiter", "amd-aiter")


def aiter_kernel(*, op: str, provider: str, dtypes: tuple[str, ...], **data: Any) -> Callable[[Bind], KernelAdapter]:
    """`kernel`, with AITER's commit."""
    return kernel(op=op, provider=provider, dtypes=dtypes, version=version, **data)


def norm_kernel(function: str, *, at: tuple[str, ...], op: str, takes: str, detail: str, **data: Any) -> KernelAdapter:
    """A row normalisation: `function` of the first of the modules `at` that has it, given what `takes` lists.

    `takes` names arguments of AITER's: keys of NORM_TENSORS, and `epsilon` or `eps`. Without `out` AITER allocates the
    output. In `detail`, {} is the function. `gate doctor --contracts` reads the names, so they are literal.
    """
    names = takes.split()

    def bind(case: Case, tensors: Tensors) -> Launch:
        made = listed(function, at=at, given={name: _norm_argument(name, case, tensors) for name in names})
        return writes(made) if "out" in names else own_output("out", made)

    return aiter_kernel(op=op, detail=detail.format(function), **data)(bind)


def _norm_argument(name: str, case: Case, tensors: Tensors) -> Any:
    if name not in NORM_TENSORS:
        return float_arg(case, "eps", EPS)
    tensor = tensors[NORM_TENSORS[name]]
    return tensor.float() if name == "xscale" else tensor


def torch_dtype(name: str) -> Any:
    """torch's dtype of a ledger's word; fp8 is the flavour that the GPU's matrix units take."""
    import torch

    return getattr(torch, TORCH[name])


def own_output(name: str, made: Callable[[], Any]) -> Launch:
    """A launch whose output AITER allocates."""
    return lambda: {name: made()}


def writes(made: Callable[[], Any]) -> Launch:
    """A launch that writes the given outputs, whatever the function returns."""

    def launch() -> None:
        made()

    return launch


def shuffled(weight: Any, tile: tuple[int, int] = (16, 16)) -> Any:
    """Weights (..., N, K) in the order that AITER's matrix kernels read: tiles of `tile`, outside the clock."""
    return call("aiter.ops.shuffle:shuffle_weight", x=weight, layout=tile)()


def float_arg(case: Case, name: str, default: float) -> float:
    """A number of the case, or the op's default."""
    return float(case.args.get(name, default))
