"""The memory of the simulated GPU: numpy arrays counted against its size, some in a file that workers share."""

from __future__ import annotations

import math
import mmap
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gate.replay.device import Coming, Comparing, DeviceError, NoRoom, OutOfMemory
from gate.replay.op import Tolerance

SENTINELS = {"fp32": -30464.0, "f32": -30464.0, "fp16": -30464.0, "f16": -30464.0, "int32": -1234567}
NUMPY_NAMES = {"fp32": "float32", "f32": "float32", "fp16": "float16", "f16": "float16", "int32": "int32"}
ALIGN_BYTES = 256


class SimMemory:
    """See the module. `total_bytes` is what there is; `lends` whether other processes may map a part of it (1),
    may not (0), or whether trying to is fatal (-1)."""

    def __init__(self, total_bytes: int, *, lends: int) -> None:
        self._total, self._lends = total_bytes, lends
        self._allocated = 0
        self._room: Any = None
        self._taken: int | None = None

    def stack(self, copies: int, shape: Sequence[int], dtype: str) -> Any:
        kind = np.dtype(NUMPY_NAMES[dtype])
        count = copies * math.prod(shape)
        if self._taken is not None:
            return self._from_room(count, kind).reshape(copies, *shape)
        size = count * kind.itemsize
        if self._allocated + size > self._total:
            raise OutOfMemory(f"the simulated GPU cannot allocate {size} bytes")
        self._allocated += size
        return np.empty((copies, *shape), dtype=kind)

    def scratch(self, elements: int, kind: Any) -> Any:
        flat = np.empty(elements, kind) if self._taken is None else self._from_room(elements, np.dtype(kind))
        flat.fill(0)
        return flat

    def _from_room(self, count: int, kind: Any) -> Any:
        assert self._taken is not None
        size = count * kind.itemsize
        start, self._taken = self._taken, self._taken + -(-size // ALIGN_BYTES) * ALIGN_BYTES
        if self._room is None or start + size > self._room.nbytes:
            raise NoRoom(f"the shared memory is too small: {self._taken} bytes are needed")
        return self._room[start : start + size].view(kind)

    def lend(self, size: int) -> tuple[int, int]:
        if self._lends < 0:
            os.abort()
        if self._lends == 0:
            raise DeviceError("the simulated GPU lends no memory")
        descriptor = os.memfd_create("gate-sim-gpu")
        os.ftruncate(descriptor, size)
        self.borrow(descriptor, size)
        return descriptor, size

    def borrow(self, descriptor: int, size: int) -> None:
        self._room = np.frombuffer(mmap.mmap(descriptor, size), dtype=np.uint8)

    @contextmanager
    def shared(self) -> Iterator[None]:
        self._taken = 0
        try:
            yield
        finally:
            self._taken = None

    def is_shared(self, tensor: Any) -> bool:
        """Whether the tensor lies in the memory that other processes map."""
        return self._room is not None and np.shares_memory(tensor, self._room)

    def normal(self, tensor: Any, seed: int, scale: float = 1.0) -> Any:
        tensor[...] = np.random.default_rng(seed).standard_normal(tensor.shape) * scale
        return tensor

    def integers(self, tensor: Any, seed: int, low: int, high: int) -> Any:
        tensor[...] = np.random.default_rng(seed).integers(low, high, tensor.shape)
        return tensor

    def fill(self, tensor: Any, dtype: str) -> None:
        tensor.fill(SENTINELS[dtype])

    def untouched(self, tensor: Any, dtype: str) -> int:
        return int((tensor == SENTINELS[dtype]).sum())

    def numbers(self, coming: Sequence[Coming]) -> list[float]:
        return [float(value) for value in coming]

    def compare(self, out: Any, reference: Any, tolerance: Tolerance) -> Comparing:
        value = np.asarray(out, dtype=np.float32)
        with np.errstate(invalid="ignore"):
            error = np.abs(value - reference)
            bad = ~(error <= tolerance.atol + tolerance.rtol * np.abs(reference))
        finite = np.isfinite(value)
        largest = float(error[finite].max()) if finite.any() else 0.0
        return Comparing(bad=int(bad.sum()), nonfinite=int((~finite).sum()), total=value.size, max_abs=largest)

    def digest(self, tensors: Iterable[Any]) -> tuple[int, ...]:
        return tuple(zlib.crc32(tensor.tobytes()) for tensor in tensors)

    def describe(self, tensor: Any) -> tuple[tuple[int, ...], str]:
        name = str(tensor.dtype)
        return tuple(tensor.shape), {"float32": "fp32", "float16": "fp16"}.get(name, name)

    def nbytes(self, tensor: Any) -> int:
        return int(tensor.nbytes)

    def copy(self, destination: Any, source: Any) -> None:
        destination[...] = source

    def join(self, tensors: Sequence[Any]) -> Any:
        return np.stack(tensors)

    def free_bytes(self) -> int:
        return max(self._total - self._allocated, 0)
