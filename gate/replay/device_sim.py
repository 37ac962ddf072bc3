"""A simulated GPU: Python callables for kernels, a computed clock with a floor and noise; see `memory_sim` for tensors.

It lets the timer, the checks, the workers and the runner be exercised on a machine without a GPU. Its rows name the
GPU `simulated`. Times depend only on the options and on what `begin` was told, never on the host's clock.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate.replay.chips import MIB, Chip
from gate.replay.device import CaptureFailed, DeviceError, Facts, KernelTime, OutOfMemory, Run
from gate.replay.memory_sim import SimMemory
from gate.replay.sim_options import SimOptions, parse


@dataclass(slots=True)
class _Node:
    name: str
    us: float
    work: Callable[[], None] | None
    touches: tuple[Any, ...]


class SimGraph:
    """The launches recorded on the capturing stream."""

    def __init__(self, recorded: list[_Node]) -> None:
        self.recorded = recorded

    def nodes(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.recorded)

    def close(self) -> None:
        self.recorded = []


_CURRENT: list[SimDevice] = []


def current() -> SimDevice:
    """The simulated device of this process. Raises DeviceError when there is none."""
    if not _CURRENT:
        raise DeviceError("no simulated device is open in this process")
    return _CURRENT[-1]


class SimDevice(SimMemory):
    """See the module; `launch` is what a simulated kernel calls."""

    def __init__(self, options: SimOptions) -> None:
        self.options = options
        chip = Chip(
            name="simulated",
            l2_bytes=int(options.l2 * MIB),
            mall_bytes=int(options.mall * MIB),
            bandwidth_gbps=4000.0,
            tflops={"fp32": 60.0, "bf16": 900.0},
        )
        total = int(options.memory * MIB)
        super().__init__(total, lends=options.lends)
        self.facts = Facts(gpu="simulated", arch="sim", runtime="sim 1", chip=chip, total_bytes=total, uuid="SIM-0")
        self._recording: list[_Node] | None = None
        self._profiled: list[KernelTime] | None = None
        self._cached: OrderedDict[int, int] = OrderedDict()
        self._eager_us = 0.0
        self._canaries = 0
        self._random = random.Random(options.seed)
        _CURRENT.append(self)

    @classmethod
    def from_text(cls, text: str) -> SimDevice:
        """The device of these options. Raises DeviceError where one of them is wrong."""
        try:
            return cls(parse(text))
        except ValueError as error:
            raise DeviceError(f"the simulated GPU: {error}", fatal=True) from None

    def launch(
        self,
        name: str,
        work: Callable[[], None] | None,
        *,
        us: float,
        touches: tuple[Any, ...] = (),
        other_stream: bool = False,
    ) -> None:
        """Enqueues a kernel that takes `us` when its tensors are cold; on another stream it escapes the capture."""
        node = _Node(name, max(us, self.options.gap), work, touches)
        if self._recording is not None and not other_stream:
            self._recording.append(node)
            return
        if work is not None:
            work()
        took = self._time(node)
        self._eager_us += took
        if self._profiled is not None:
            self._profiled.append(KernelTime(name=name, us=took))

    def _time(self, node: _Node) -> float:
        """Cold time, or the warm share of it when every touched tensor is still cached."""
        hot = bool(node.touches)
        for tensor in node.touches:
            key = tensor.__array_interface__["data"][0]
            hot = hot and key in self._cached
            self._cached.pop(key, None)
            self._cached[key] = tensor.nbytes
        while sum(self._cached.values()) > self.facts.chip.cache_bytes:
            self._cached.popitem(last=False)
        return max(node.us * (self.options.warm if hot else 1.0), self.options.gap)

    def run(self, run: Run) -> None:
        run()

    def capture(self, run: Run) -> SimGraph:
        self._recording = []
        try:
            run()
            return SimGraph(self._recording)
        except RuntimeError as error:
            raise CaptureFailed(f"{type(error).__name__}: {error}") from error
        finally:
            self._recording = None

    def replay(self, graph: Any) -> None:
        for node in graph.recorded:
            if node.work is not None:
                node.work()

    def _noisy(self, us: float) -> float:
        return us * (1.0 + self.options.noise * self._random.gauss(0.0, 1.0))

    def _there(self) -> None:
        if self.options.gone and Path(self.options.gone).exists():
            raise DeviceError("the simulated GPU has fallen off the bus", fatal=True)

    def timed(self, graphs: Sequence[Any], *, flush: bool) -> list[float]:
        self._there()
        times = []
        for graph in graphs:
            if flush:
                self._cached.clear()
            times.append(self.options.floor + self._noisy(sum(self._time(node) for node in graph.recorded)))
        return times

    def timed_legacy(self, graph: Any, repeats: int) -> list[float]:
        return self.timed([graph] * repeats, flush=True)

    def timed_eager(self, run: Run, repeats: int) -> list[float]:
        times = []
        for _ in range(repeats):
            self._eager_us = 0.0
            run()
            times.append(3 * self.options.floor + self._noisy(self._eager_us))
        return times

    def empty(self) -> None:
        self.launch("empty", None, us=0.0)

    def read(self, tensor: Any) -> None:
        self.launch("read", None, us=tensor.nbytes / 4000e3, touches=(tensor,))

    def profile(self, run: Run) -> tuple[KernelTime, ...]:
        self._profiled = []
        self._cached.clear()
        try:
            run()
            return tuple(self._profiled) if self.options.profiler else ()
        finally:
            self._profiled = None

    def warm_profiler(self) -> None:
        return

    def canary(self, warm: int) -> dict[str, float]:
        self._there()
        del warm
        self._canaries += 1
        if self._canaries > self.options.canaries:
            raise OutOfMemory("no room for the canary")
        slow = 1.0 + (self.options.drift if self._canaries > self.options.drift_after else 0.0)
        return {"spin": 100.0 * slow, "copy": 120.0 * slow}

    def begin(self, label: str) -> None:
        self._there()
        self._random = random.Random(f"{self.options.seed}:{label}")

    def trim(self, share: float) -> None:
        del share
        self._allocated = 0
        self._cached.clear()
