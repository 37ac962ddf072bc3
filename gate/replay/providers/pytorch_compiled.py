"""Every kernel of the PyTorch provider through torch.compile: a variant, `gate.replay.providers.pytorch_compiled:OP`.

What PyTorch needs several operators for becomes one or two fused kernels. A shape is compiled by the first call, which
the engine makes before it records a graph; later calls of the same shape compile nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate.replay.op import Case, Tensors
from gate.replay.provider import NoKernel, ProviderAdapter, adapter_from

MODE = "max-autotune-no-cudagraphs"
# One function is compiled for every shape of a session; torch gives up compiling after 8 by default.
SHAPES = 1 << 20
BEFOREHAND, IN_CALL = "beforehand", "in the call"


class Compiled(ProviderAdapter):
    """The PyTorch kernel of an op, compiled. Raises NoKernel where PyTorch has none."""

    provider = "pytorch"
    # The compiled code returns what it allocated, or copies into the outputs given.
    includes_allocation = True

    def __init__(self, op_type: str = "") -> None:
        from gate.replay.providers import pytorch

        super().__init__(op_type)
        self.eager = adapter_from(pytorch, op_type)
        self.includes_allocation = self.eager.includes_allocation

    def supports(self, case: Case) -> str | None:
        return self.eager.supports(case)

    def describe(self, case: Case) -> str:
        # The eager kernel's `prepare` is compiled too, and so part of every call.
        eager = self.eager.describe(case).replace(BEFOREHAND, IN_CALL)
        return f"torch.compile(mode={MODE!r}, dynamic=False) of {eager}"

    def converts_layout(self, case: Case) -> bool:
        return self.eager.converts_layout(case) or BEFOREHAND in self.eager.describe(case)

    def commit(self) -> str | None:
        return self.eager.commit()

    def prepare(self, case: Case, tensors: Tensors) -> Any:
        return compiled(self.eager, case), tensors

    def launch(self, state: Any) -> Mapping[str, Any] | None:
        call, tensors = state
        result: Mapping[str, Any] | None = call(tensors)
        return result


_CALLS: dict[tuple[int, str], Any] = {}


def compiled(eager: ProviderAdapter, case: Case) -> Any:
    """The compiled function of a tensor mapping, one for all ring copies of a case."""
    key = (id(eager), f"{case.shape_id}:{case.dtype}:{sorted(case.args.items())}")
    if key not in _CALLS:
        import torch

        torch._dynamo.config.recompile_limit = SHAPES
        torch._dynamo.config.accumulated_recompile_limit = SHAPES

        def call(tensors: Tensors) -> Mapping[str, Any] | None:
            return eager.launch(eager.prepare(case, tensors))

        _CALLS.clear()
        _CALLS[key] = torch.compile(call, mode=MODE, dynamic=False, fullgraph=True)
    return _CALLS[key]


def get_adapter(op_type: str) -> ProviderAdapter:
    """The compiled kernel for an op. Raises NoKernel."""
    return Compiled(op_type)


def __getattr__(name: str) -> ProviderAdapter:
    """A kernel by its op's name, as in every provider."""
    try:
        return Compiled(name)
    except NoKernel:
        raise AttributeError(name) from None
