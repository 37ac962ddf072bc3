"""Workers that are started ahead: fresh processes that have imported torch and opened the GPU, and know no arm yet."""

from __future__ import annotations

import dataclasses
from typing import Any

from gate.replay.arms import ArmSpec
from gate.replay.crew import Crew
from gate.replay.job import Settings
from gate.replay.link import Link
from gate.replay.looks import Token

Spare = tuple[Link, dict[str, str], dict[str, Any]]


class Spares:
    """Fresh workers of one interpreter and environment, `size` started together whenever there are none left.

    Starting takes seconds, nearly all of it the same for every arm, and is felt by whoever measures meanwhile: it is
    done for many workers at once, with the GPU held. Each serves one arm and then ends. An arm that needs another
    interpreter, libraries or variables, which only a new process can have, gets none.
    """

    def __init__(self, settings: Settings, *, arm: ArmSpec, gpu: str | None, token: Token, size: int) -> None:
        self.settings, self.gpu, self.token, self.size = settings, gpu, token, size
        self.arm = bare(arm)
        self.started = 0
        self._free: list[Spare] = []

    def take(self, spec: ArmSpec) -> Spare | None:
        """A worker that can become the arm, to be given its path, or None. Raises SideLost or NoDevice."""
        if bare(spec) != self.arm or self.size == 0:
            return None
        with self.token.hold():
            if not self._free:
                self._start()
            return self._free.pop()

    def _start(self) -> None:
        names = [f"spare{self.started + index}" for index in range(self.size)]
        settings = dataclasses.replace(self.settings, arms=dict.fromkeys(names, self.arm))
        crew = Crew(settings, name="bisect", gpu=self.gpu)
        try:
            crew.start(names)
        except BaseException:
            crew.close()
            raise
        self._free += [(crew.links[name], crew.environments[name], crew.chips[name]) for name in names]
        self.started += len(names)

    def close(self) -> None:
        """Ends the workers that nobody took."""
        for link, _, _ in self._free:
            link.close()
        self._free.clear()


def bare(spec: ArmSpec) -> ArmSpec:
    """What of an arm must be there before its process starts."""
    return dataclasses.replace(spec, path=(), commit=None)


class SparedCrew(Crew):
    """A crew that takes its workers from the spares where it can."""

    spares: Spares | None = None

    def start(self, sides: Any, **options: Any) -> None:
        """As Crew.start. Raises SideLost or NoDevice."""
        for side in [side for side in dict.fromkeys(sides) if side not in self.links]:
            spec = self.settings.arms[side]
            spare = self.spares.take(spec) if self.spares is not None else None
            if spare is not None:
                self.links[side], self.environments[side], self.chips[side] = spare
                self.ask(side, {"do": "adopt", "path": list(spec.path)})
        super().start(sides, **options)
