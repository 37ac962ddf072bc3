"""The seam between the engine and a GPU: everything that differs between CUDA, HIP and the simulation.

The engine holds tensors only as opaque values and hands them back to the device that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from gate.replay.chips import Chip
from gate.replay.op import Tolerance

Run = Callable[[], None]


class DeviceError(Exception):
    """The device cannot be used as asked; `fatal` means that this process can use it no more."""

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


class CaptureFailed(DeviceError):
    """Recording a graph failed; the message is the runtime's own reason."""


class OutOfMemory(DeviceError):
    """The device has not enough free memory."""


class NoRoom(DeviceError):
    """The memory that arms share is too small for what is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the device is. `runtime` is the ROCm or CUDA version; `total_bytes` its memory."""

    gpu: str
    arch: str
    runtime: str
    chip: Chip
    total_bytes: int
    uuid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """One kernel that the profiler saw, and how long it ran on the device."""

    name: str
    us: float


# A number that the device may still be working on, until `numbers` has waited for it.
Coming = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Outputs against their reference: elements outside the tolerance, non-finite ones, the largest error."""

    bad: int
    nonfinite: int
    total: int
    max_abs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """A comparison whose numbers are still coming."""

    bad: Coming
    nonfinite: Coming
    total: int
    max_abs: Coming


class Graph(Protocol):
    """A recorded sequence of launches."""

    def nodes(self) -> tuple[str, ...] | None:
        """The kernels in it, in order; None where the runtime cannot tell."""
        ...

    def close(self) -> None:
        """Frees it."""
        ...


class Memory(Protocol):
    """Where tensors live: what ops need of a device to make their inputs."""

    def stack(self, copies: int, shape: Sequence[int], dtype: str) -> Any:
        """An uninitialised tensor (copies, *shape); each copy is contiguous and aligned on 256 bytes."""
        ...

    def scratch(self, elements: int, kind: Any) -> Any:
        """A flat zeroed tensor; `kind` is a dtype of the tensors' own library."""
        ...

    def normal(self, tensor: Any, seed: int, scale: float = 1.0) -> Any:
        """Fills the tensor with N(0, scale^2) values, different in every copy, and returns it.

        Integers are rounded, and what is out of the dtype's range becomes its nearest end.
        """
        ...

    def integers(self, tensor: Any, seed: int, low: int, high: int) -> Any:
        """Fills an integer tensor evenly from [low, high), different in every copy, and returns it."""
        ...

    def fill(self, tensor: Any, dtype: str) -> None:
        """Fills the tensor with the sentinel of its dtype, a finite value that no kernel writes by chance."""
        ...

    def untouched(self, tensor: Any, dtype: str) -> Coming:
        """How many elements still hold the sentinel."""
        ...

    def compare(self, out: Any, reference: Any, tolerance: Tolerance) -> Comparing:
        """Compares outputs with an fp32 reference of the same shape."""
        ...

    def numbers(self, coming: Sequence[Coming]) -> list[float]:
        """The numbers, waited for once: beside other processes every wait costs their turns on the GPU."""
        ...

    def digest(self, tensors: Iterable[Any]) -> tuple[int, ...]:
        """A number for the bytes of each tensor: equal bytes give equal numbers, in every process of one kind; others,
        the same ones in another order too, give others but by a chance of less than one in 2^31."""
        ...

    def describe(self, tensor: Any) -> tuple[tuple[int, ...], str]:
        """The tensor's shape and the name of its dtype, as `Spec` writes it."""
        ...

    def nbytes(self, tensor: Any) -> int:
        """Bytes the tensor's elements take."""
        ...

    def copy(self, destination: Any, source: Any) -> None:
        """Copies values into a tensor of the same shape."""
        ...

    def join(self, tensors: Sequence[Any]) -> Any:
        """A new tensor (n, *shape) of n tensors of one shape."""
        ...


class Sharing(Protocol):
    """Memory that lies at the same physical place for several processes, so that where it lies divides nobody."""

    def lend(self, size: int) -> tuple[int, int]:
        """Makes at least `size` bytes that other processes can map: a descriptor, the caller's to close, and the exact
        size. Raises DeviceError where that cannot be, or where such memory is slower than the process's own."""
        ...

    def borrow(self, descriptor: int, size: int) -> None:
        """Maps what another process has lent. Raises DeviceError as `lend`."""
        ...

    def shared(self) -> AbstractContextManager[None]:
        """Within it `stack` takes tensors from the shared memory, from its start on. Raises NoRoom when it is
        full."""
        ...


class Device(Memory, Sharing, Protocol):
    """One GPU as one process sees it."""

    facts: Facts

    def run(self, run: Run) -> None:
        """Runs eagerly and waits. Raises DeviceError."""
        ...

    def capture(self, run: Run) -> Graph:
        """Records the launches that `run` enqueues on the current stream. Raises CaptureFailed."""
        ...

    def replay(self, graph: Graph) -> None:
        """Replays a graph and waits."""
        ...

    def timed(self, graphs: Sequence[Graph], *, flush: bool) -> list[float]:
        """Replays the graphs in order without a wait in between; microseconds of each. `flush` evicts all caches
        before each one, outside the timed span."""
        ...

    def timed_legacy(self, graph: Graph, repeats: int) -> list[float]:
        """Microseconds of each replay after writing zeros over 256 MB, as the older harness did."""
        ...

    def timed_eager(self, run: Run, repeats: int) -> list[float]:
        """Microseconds of each eager call between two events, launch included."""
        ...

    def empty(self) -> None:
        """Enqueues a kernel that does nothing."""
        ...

    def read(self, tensor: Any) -> None:
        """Enqueues a kernel that reads every byte of the tensor once."""
        ...

    def profile(self, run: Run) -> tuple[KernelTime, ...]:
        """The kernels of one eager run with their device times; empty where no profiler is available."""
        ...

    def warm_profiler(self) -> None:
        """Pays the profiler's first-use cost now."""
        ...

    def canary(self, warm: int) -> dict[str, float]:
        """Microseconds of fixed work after `warm` light rounds: `spin` follows the core clock, `copy` memory."""
        ...

    def begin(self, label: str) -> None:
        """Tells the device what is about to be measured (the simulation draws its noise from it)."""
        ...

    def free_bytes(self) -> int:
        """Free device memory."""
        ...

    def trim(self, share: float) -> None:
        """Returns unused memory to the system, where this process keeps more than `share` of the device's."""
        ...


def open_device(spec: str) -> Device:
    """The device `gpu` (the one this process may see) or `sim[:key=value,...]`. Raises DeviceError."""
    name, _, options = spec.partition(":")
    if name == "sim":
        from gate.replay.device_sim import SimDevice

        return SimDevice.from_text(options)
    from gate.replay.device_torch import TorchDevice

    return TorchDevice()
