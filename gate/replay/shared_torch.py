"""Tensors of torch in a block of device memory that other processes map too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from gate.replay import shared_block
from gate.replay.chips import MIB
from gate.replay.device import DeviceError, NoRoom
from gate.replay.memory_torch import TorchMemory
from gate.replay.shared_block import SharedBlock

# Where torch's allocator, too, begins a large tensor.
PAGE_BYTES = 2 * MIB
RATE_BYTES = 512 * MIB
RATE_TRIES = 5
RATE_ROUNDS, LEAST_ROUNDS = 10, 4
SLOWEST = 1.1


class SharedTorchMemory(TorchMemory):
    """See the module. Outside `shared` every tensor is the process's own."""

    _room: Any = None
    _taken: int | None = None

    def lend(self, size: int) -> tuple[int, int]:
        block, descriptor = shared_block.lend(size)
        self._enter(block)
        return descriptor, block.size

    def borrow(self, descriptor: int, size: int) -> None:
        self._enter(shared_block.borrow(descriptor, size))

    def _enter(self, block: SharedBlock) -> None:
        room = self._torch.as_tensor(block, device=self._place)
        if room.data_ptr() != block.address:
            raise DeviceError("torch copies shared memory instead of using it")
        slower = self._slower(room[: min(RATE_BYTES, block.size)])
        if slower > SLOWEST:
            raise DeviceError(f"shared memory takes {slower:.2f} times as long to read as the process's own")
        self._room = room

    def _slower(self, data: Any) -> float:
        """How many times as long as memory of the process's own this takes to read. Other lanes may disturb either: the
        least of a few counts of each."""
        shared = own = math.inf
        for done in range(1, RATE_ROUNDS + 1):
            shared, own = min(shared, self._read_ms(data)), min(own, self._read_ms(None, len(data)))
            if done >= LEAST_ROUNDS and shared <= SLOWEST * own:
                break
        return shared / own

    def _read_ms(self, data: Any, size: int = 0) -> float:
        """The least milliseconds that reading the bytes took; of `size` bytes of the process's own without `data`."""
        torch = self._torch
        if data is None:
            data = torch.empty(size, dtype=torch.uint8, device=self._place)
        words, sink = data.view(torch.float32).fill_(1.0), torch.empty((), dtype=torch.float32, device=self._place)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(RATE_TRIES + 2)]
        for event in events:
            torch.sum(words, dim=0, out=sink)
            event.record()
        torch.cuda.synchronize()
        return float(min(first.elapsed_time(then) for first, then in pairwise(events[1:])))

    @contextmanager
    def shared(self) -> Iterator[None]:
        self._taken = 0
        try:
            yield
        finally:
            self._taken = None

    def _flat(self, count: int, kind: Any) -> Any:
        if self._taken is None:
            return super()._flat(count, kind)
        size = count * kind.itemsize
        start, self._taken = self._taken, self._taken + -(-size // PAGE_BYTES) * PAGE_BYTES
        if self._room is None or start + size > self._room.numel():
            raise NoRoom(f"the shared memory is too small: {self._taken} bytes are needed")
        return self._room[start : start + size].view(kind)
