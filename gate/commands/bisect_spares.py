"""Workers that are started ahead: fresh processes that have imported torch and opened the GPU, and know no arm yet."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from gate.replay.arms import ArmSpec
from gate.replay.crew import Crew, NoDevice, SideLost
from gate.replay.job import Settings
from gate.replay.link import Link
from gate.replay.token import Token

# A spare that died while it waited is no kernel's fault.
DEAD_TRIES = 3
Spare = tuple[Link, dict[str, str], dict[str, Any]]


class Spares:
    """Fresh workers of one interpreter and environment, `size` started together while the last ones are in use.

    Starting takes seconds, nearly all of it the same for every arm. What of it touches no GPU goes on beside the
    measurements; the rest is done for many workers at once, while nothing is measured. Each worker serves one arm and
    then ends. An arm that needs another interpreter, libraries or variables, which only a new process can have, gets
    none.
    """

    def __init__(self, settings: Settings, *, arm: ArmSpec, gpu: str | None, token: Token, size: int) -> None:
        self.settings, self.gpu, self.token, self.size = settings, gpu, token, size
        self.arm = bare(arm)
        self.started = 0
        self.seconds = 0.0
        self._free: list[Spare] = []
        self._lock = threading.Lock()
        self._coming: Future[list[Spare]] | None = None
        self._starting: Crew | None = None
        # Linux ends a worker with the thread that started it, so that thread lives as long as this.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spares")

    def take(self, spec: ArmSpec) -> Spare | None:
        """A worker that can become the arm, to be given its path, or None. Raises NoDevice."""
        with self._lock:
            if bare(spec) != self.arm or self.size == 0:
                return None
            if self._coming is None and len(self._free) <= self.size // 4:
                self._coming = self._starter.submit(self._start)
            if not self._free and self._coming is not None:
                try:
                    self._free += self._coming.result()
                except SideLost:
                    # Too many at once for this machine: from now on every arm starts its own.
                    self.size = 0
                    return None
                finally:
                    self._coming = None
            return self._free.pop()

    def _start(self) -> list[Spare]:
        began = time.monotonic()
        names = [f"spare{self.started + index}" for index in range(self.size)]
        settings = dataclasses.replace(self.settings, arms=dict.fromkeys(names, self.arm))
        crew = self._starting = Crew(settings, name="bisect", gpu=self.gpu)
        try:
            crew.start(names, turn=self.token.share)
        except BaseException:
            crew.close()
            raise
        self.started += len(names)
        self.seconds += time.monotonic() - began
        return [(crew.links[name], crew.environments[name], crew.chips[name]) for name in names]

    def close(self) -> None:
        """Ends the workers that nobody took."""
        with self._lock:
            if self._coming is not None:
                for link in list(self._starting.links.values()) if self._starting is not None else []:
                    link.kill()
                with contextlib.suppress(SideLost, NoDevice):
                    self._free += self._coming.result()
            for link, _, _ in self._free:
                link.close()
            self._free.clear()
            self.size = 0
        self._starter.shutdown()


def bare(spec: ArmSpec) -> ArmSpec:
    """What of an arm must be there before its process starts."""
    return dataclasses.replace(spec, path=(), commit=None)


class SparedCrew(Crew):
    """A crew that takes its workers from the spares where it can."""

    spares: Spares | None = None

    def start(self, sides: Any, **options: Any) -> None:
        """As Crew.start. Raises SideLost or NoDevice."""
        for side in [side for side in dict.fromkeys(sides) if side not in self.links]:
            self._take(side)
        super().start(sides, **options)

    def _take(self, side: str) -> None:
        """A spare worker for the side, if there is one that still lives."""
        spec = self.settings.arms[side]
        for _ in range(DEAD_TRIES):
            spare = self.spares.take(spec) if self.spares is not None else None
            if spare is None:
                return
            self.links[side], self.environments[side], self.chips[side] = spare
            try:
                self.ask(side, {"do": "adopt", "path": list(spec.path)})
                return
            except SideLost:
                self.bury(side)
