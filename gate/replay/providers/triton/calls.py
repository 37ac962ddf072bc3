"""How Triton kernels become a provider: one function says what is called, for launching and for compiling alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import triton

from gate.replay import compiling
from gate.replay.memory_torch import TorchMemory
from gate.replay.op import Case, Tensors, load_op
from gate.replay.provider import KernelAdapter
from gate.replay.providers.triton.common import version


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One launch: the jitted function, its arguments in order, its grid, and constants and options by name.

    `scratch` is memory that it writes beside the outputs.
    """

    function: Any
    arguments: tuple[Any, ...]
    grid: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    scratch: tuple[Any, ...] = ()


class Launches:
    """Calls bound to their tensors; launched in order. `chosen` says how they were chosen among others."""

    def __init__(self, calls: Sequence[Call], chosen: str = "") -> None:
        self.chosen = chosen
        self.scratch = tuple(space for call in calls for space in call.scratch)
        self._bound = [(call.function[call.grid], call.arguments, call.options) for call in calls]

    def __call__(self) -> None:
        for launcher, arguments, options in self._bound:
            launcher(*arguments, **options)


class TritonAdapter(KernelAdapter):
    """A kernel whose state is its launches."""

    def workspaces(self, state: Any) -> tuple[Any, ...]:
        found: tuple[Any, ...] = state.scratch
        return found

    def chosen(self, state: Any) -> str:
        words: str = state.chosen
        return words


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


Unfit = tuple[type[Exception], ...]


def warm_up(calls: Iterable[Call], *, but: Unfit = ()) -> None:
    """Compiles the calls without making them, as `compiling` says: their code alone, or all that a launch needs.

    Raises what a compile raises, `but` for these: such a call stays uncompiled.
    """
    threads = compiling.THREADS.get()
    kernels = _side_by_side(calls, threads, but) if threads > 1 else None
    if kernels is None:
        kernels = []
        for call in calls:
            with suppress(*but):
                kernels.append(call.function.warmup(*call.arguments, grid=call.grid, **call.options))
    if threads:
        _build_launchers(kernels)


def _side_by_side(calls: Iterable[Call], threads: int, but: Unfit) -> list[Any] | None:
    """The compiled kernels, so many in work at a time; None where this Triton compiles one by one."""
    mode = getattr(triton, "AsyncCompileMode", None)
    if mode is None or "ignore_errors" not in inspect.signature(mode).parameters:
        return None
    # Errors are looked at afterwards: raised at the mode's end they would leave it switched on.
    with ThreadPoolExecutor(threads) as pool, mode(pool, ignore_errors=True) as work:
        for call in calls:
            call.function.warmup(*call.arguments, grid=call.grid, **call.options)
    return [compiled.result() for compiled in work.raw_futures if not isinstance(compiled.exception(), but)]


def _build_launchers(kernels: Iterable[Any]) -> None:
    """Has Triton compile and keep on disk the host code that hands a kernel its arguments, which it else does at the
    first launch, with the GPU held."""
    launcher = getattr(triton.runtime.driver.active, "launcher_cls", None)
    if launcher is None:
        return
    for kernel in kernels:
        # Of a function that tunes itself there are several in a list, in Triton's interpreter there is none.
        if hasattr(kernel, "src"):
            launcher(kernel.src, kernel.metadata)


CallOf = Callable[[Case, Tensors], Call | tuple[Call, ...]]


def triton_kernel(
    *, op: str, dtypes: Sequence[str], detail: str, when: Callable[[Case], str | None] | None = None
) -> Callable[[CallOf], TritonAdapter]:
    """Makes a provider's kernel out of a function `(case, tensors) -> Call`, or several calls in order."""

    def wrap(call_of: CallOf) -> TritonAdapter:
        def calls(case: Case, tensors: Tensors) -> tuple[Call, ...]:
            found = call_of(case, tensors)
            return found if isinstance(found, tuple) else (found,)

        def compile_it(case: Case) -> None:
            warm_up(calls(case, on_paper(case)))

        return TritonAdapter(
            bind=lambda case, tensors: Launches(calls(case, tensors)),
            op_type=op,
            provider="triton",
            dtypes=tuple(dtypes),
            detail=detail,
            when=when,
            compiler=compile_it,
            version=version,
            tunes_itself=False,
            name=op,
        )

    return wrap


def row_warps(elements: int) -> int:
    """About 16 elements a lane: enough loads in flight to cover memory latency, few enough registers not to spill."""
    warp = 64 if torch.version.hip else 32
    return max(1, min(16, elements // (16 * warp)))
