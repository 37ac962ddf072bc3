"""What the bindings to AITER share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gate.replay.call import call
from gate.replay.environment import package_commit, package_version
from gate.replay.op import Case
from gate.replay.provider import Bind, KernelAdapter, Launch, kernel

FLOATS = ("bf16", "f16", "fp16", "f32", "fp32")
HALVES = ("bf16", "f16", "fp16")
TORCH = {"bf16": "bfloat16", "f16": "float16", "fp16": "float16", "f32": "float32", "fp32": "float32", "int8": "int8"}


def version() -> str | None:
    """The commit of the AITER checkout, else the installed version."""
    return package_commit("aiter") or package_version("aiter", "amd-aiter")


def aiter_kernel(*, op: str, provider: str, dtypes: tuple[str, ...], **data: Any) -> Callable[[Bind], KernelAdapter]:
    """`kernel`, with AITER's commit."""
    return kernel(op=op, provider=provider, dtypes=dtypes, version=version, **data)


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
