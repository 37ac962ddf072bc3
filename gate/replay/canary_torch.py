"""The canaries of a real GPU: fixed work whose time says whether the machine is still what it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gate.replay.chips import MIB
from gate.replay.device import Run

COPY_BYTES = 256 * MIB
CYCLES = 100_000
LAUNCHES = 8

Capture = Callable[[Run], Any]
Timed = Callable[[Sequence[Any]], list[float]]


class TorchCanary:
    """`spin` follows the core clock, `copy` memory. Graphs and buffers are made once and kept."""

    def __init__(self, torch: Any, capture: Capture) -> None:
        self._torch = torch
        source = torch.ones(COPY_BYTES // 4, dtype=torch.float32, device="cuda")
        destination = torch.empty_like(source)
        self._memory = (source, destination)
        works: dict[str, Run] = {"spin": self._spin, "copy": lambda: destination.copy_(source)}
        self._graphs = {name: (self._captured(run, LAUNCHES, capture), capture(run)) for name, run in works.items()}

    def _spin(self) -> None:
        self._torch.cuda._sleep(CYCLES)

    def _captured(self, run: Run, launches: int, capture: Capture) -> Any:
        run()
        self._torch.cuda.synchronize()

        def several() -> None:
            for _ in range(launches):
                run()

        return capture(several)

    def times_us(self, warm: int, timed: Timed) -> dict[str, float]:
        """Microseconds of each canary after `warm` light rounds."""
        # An idle GPU, and one fresh from heavy work, runs slower clocks; light work brings both to the same ones.
        for _ in range(warm):
            self._spin()
        return {name: _slope_us(timed([many] * 4 + [one] * 4)) for name, (many, one) in self._graphs.items()}


def _slope_us(times: Sequence[float]) -> float:
    # The slope leaves out what a replay or the host's own pace adds.
    return (sorted(times[1:4])[1] - sorted(times[5:8])[1]) / (LAUNCHES - 1)
