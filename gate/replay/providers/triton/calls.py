"""How a Triton kernel becomes a provider: one function says what is called, for launching and for compiling alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton

from gate.replay.memory_torch import TorchMemory
from gate.replay.op import Case, Tensors, load_op
from gate.replay.provider import Bind, KernelAdapter, Launch, kernel
from gate.replay.providers.triton.common import version


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One launch: the jitted function, its arguments in order, its grid, and constants and options by name."""

    function: Any
    arguments: tuple[Any, ...]
    grid: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)


class Paper(TorchMemory):
    """Tensors of torch's meta device: shape, dtype and strides, but no values and no memory."""

    def __init__(self, arch: str) -> None:
        super().__init__("meta", arch)

    def normal(self, tensor: Any, seed: int, scale: float = 1.0) -> Any:
        del seed, scale
        return tensor

    def integers(self, tensor: Any, seed: int, low: int, high: int) -> Any:
        del seed, low, high
        return tensor


def on_paper(case: Case) -> Tensors:
    """One copy of the op's tensors without memory, in the dtypes that the target of this process takes."""
    memory: Any = Paper(str(triton.runtime.driver.active.get_current_target().arch))
    op = load_op(case.op_type)
    given = {name: memory.stack(1, spec.shape, spec.dtype) for name, spec in op.outputs(case).items()}
    return {name: tensor[0] for name, tensor in {**op.inputs(case, memory, 1, 0), **given}.items()}


def triton_kernel(
    *, op: str, dtypes: Sequence[str], detail: str, **data: Any
) -> Callable[[Callable[[Case, Tensors], Call]], KernelAdapter]:
    """Makes a provider's kernel out of a function `(case, tensors) -> Call`; `data` are KernelAdapter's fields."""

    def wrap(call_of: Callable[[Case, Tensors], Call]) -> KernelAdapter:
        def compile_it(case: Case) -> None:
            call = call_of(case, on_paper(case))
            call.function.warmup(*call.arguments, grid=call.grid, **call.options)

        made = kernel(
            op=op, provider="triton", dtypes=dtypes, detail=detail, compiler=compile_it, version=version, **data
        )
        return made(_binding(call_of))

    return wrap


def _binding(call_of: Callable[[Case, Tensors], Call]) -> Bind:
    def bind(case: Case, tensors: Tensors) -> Launch:
        call = call_of(case, tensors)
        launcher = call.function[call.grid]
        arguments, options = call.arguments, call.options

        def launch() -> None:
            launcher(*arguments, **options)

        return launch

    return bind


def row_warps(elements: int) -> int:
    """About 16 elements a lane: enough loads in flight to cover memory latency, few enough registers not to spill."""
    warp = 64 if torch.version.hip else 32
    return max(1, min(16, elements // (16 * warp)))
