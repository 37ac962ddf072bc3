"""The workers of one lane on one GPU: one process per side, started when needed and started again when it died."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gate.model.problem import Problem, UnusableInput
from gate.model.text import one_line
from gate.replay.arms import ArmSpec
from gate.replay.job import Settings
from gate.replay.link import BOOT, Link, WorkerDied
from gate.replay.sharing import SharedMemory

Reply = dict[str, Any]


class SideLost(Exception):
    """The worker of one side died; `arm` is whose command it was carrying out, if any. `also`: others that died in the
    same command."""

    def __init__(self, side: str, arm: str | None, death: WorkerDied) -> None:
        super().__init__(death.reason)
        self.side, self.arm, self.death = side, arm, death
        self.also: tuple[SideLost, ...] = ()

    @classmethod
    def together(cls, lost: Sequence[SideLost]) -> SideLost:
        """The first of several, which carries the others."""
        first, *others = (one for each in lost for one in (each, *each.also))
        first.also = tuple(others)
        return first


class ContextLost(SideLost):
    """A worker answered that its GPU context is lost; the arm at fault already has its reason."""

    def __init__(self, side: str) -> None:
        super().__init__(side, None, WorkerDied("the GPU context was lost"))


class SharingLost(SideLost):
    """A worker died when it was to share memory; no kernel has run, so no arm is to blame."""


class NoDevice(Exception):
    """A worker started but could not open the device; `full`: for lack of memory, which others may hold."""

    def __init__(self, reason: str, *, full: bool = False) -> None:
        super().__init__(reason)
        self.full = full


def unstarted(lost: SideLost, arms: Mapping[str, ArmSpec]) -> NoDevice | UnusableInput:
    """What is raised where a worker was lost before anything was measured with it: of one that never answered, whose
    interpreter it is and its last words; of any other, that there is no GPU for it."""
    if lost.death.outside or not lost.death.silent:
        # Who is killed at every start may lack the host's memory.
        return NoDevice(f"{lost.side}: {lost.death.reason}", full=lost.death.outside)
    spec = arms[lost.side]
    # The baselines' is base's or head's own, where it was not named.
    side = next(side for side, other in arms.items() if other == spec)
    what = f"the interpreter of {side} did not answer as a worker: {one_line(lost.death.reason)}"
    fix = f"name a Python that has torch, as --{side} python=PATH, with an environment it starts in"
    return UnusableInput(Problem(what=what, file=spec.python, fix=fix))


class Crew:
    """See the module. `gpu` is the entry for the visible-devices variable, or None to leave it alone."""

    def __init__(self, settings: Settings, *, name: str, gpu: str | None) -> None:
        self.settings, self.name, self.gpu = settings, name, gpu
        self.links: dict[str, Link] = {}
        self.environments: dict[str, dict[str, str]] = {}
        self.chips: dict[str, dict[str, Any]] = {}
        self.restarts = 0
        self.memory = SharedMemory(settings.lanes)

    def start(self, sides: Iterable[str], *, turn: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        """Starts the workers that are not running, together; they open the GPU in a `turn`, as measurements feel that.
        One that ended while nobody asked it anything is no arm's fault, and replaced.

        Raises SideLost or NoDevice.
        """
        greeting = {"do": "hello", "device": self.settings.device, "lanes": self.settings.lanes}
        wanted = list(dict.fromkeys(sides))
        for side in wanted:
            if side in self.links and self.links[side].ended:
                self.bury(side)
        fresh = [side for side in wanted if side not in self.links]
        try:
            for side in fresh:
                self.links[side] = self._launch(side, self.settings.arms[side])
            self.ask_together([(side, {**greeting, "do": "wake"}) for side in fresh])
            if fresh:
                with turn():
                    replies = self.ask_together([(side, greeting) for side in fresh])
                for side, reply in zip(fresh, replies, strict=True):
                    self._welcome(side, reply)
        except (SideLost, NoDevice):
            # A worker that was not heard yet must not pass for one that was.
            for side in fresh:
                self.bury(side)
            raise

    def _welcome(self, side: str, reply: Reply) -> None:
        if reply["status"] != "ok":
            raise NoDevice(f"{side}: {reply['reason']}", full=reply["status"] == "oom")
        self.environments[side], self.chips[side] = reply["environment"], reply["chip"]

    def _launch(self, side: str, spec: ArmSpec) -> Link:
        log = self.settings.folder / "logs" / f"{self.name}-{side}.log"
        environment = spec.environment(os.environ, gpu=self.gpu)
        return Link(name=f"{self.name}-{side}", command=[spec.python, str(BOOT)], environment=environment, log=log)

    def share(self, sides: Iterable[str]) -> bool:
        """Whether all these sides have the lane's shared memory; to be called in a turn on the GPU. Raises SideLost."""
        return all(self._reach(side) for side in sides)

    def _reach(self, side: str) -> bool:
        link, limits = self.links[side], self.settings
        try:
            return self.memory.reach(link, lambda message: link.ask(message, timeout_s=limits.timeout_s(message["do"])))
        except WorkerDied as death:
            self.memory.cost_a_worker(death)
            raise SharingLost(side, None, death) from None

    def ask(self, side: str, message: Reply) -> Reply:
        """One command to one side. Raises SideLost."""
        return self._receive(side, self._send(side, message), message)

    def ask_together(self, messages: list[tuple[str, Reply]]) -> list[Reply]:
        """The sides work at the same time, each side one command after another.

        Raises SideLost, once no other side works any more.
        """
        replies: list[Reply] = [{} for _ in messages]
        waiting = list(enumerate(messages))
        while waiting:
            first = {side: (place, message) for place, (side, message) in reversed(waiting)}
            sent, lost = [], []
            for side, (place, message) in first.items():
                try:
                    sent.append((place, side, message, self._send(side, message)))
                except SideLost as death:
                    lost.append(death)
            for place, side, message, number in sent:
                try:
                    replies[place] = self._receive(side, number, message)
                except SideLost as death:
                    lost.append(death)
            if lost:
                raise SideLost.together(lost)
            done = {place for place, *_ in sent}
            waiting = [item for item in waiting if item[0] not in done]
        return replies

    def _send(self, side: str, message: Reply) -> int:
        try:
            return self.links[side].send(message)
        except WorkerDied as death:
            raise SideLost(side, message.get("arm"), death) from None

    def _receive(self, side: str, number: int, message: Reply) -> Reply:
        timeout_s = self.settings.timeout_s(message["do"])
        try:
            return self.links[side].receive(number, what=message["do"], timeout_s=timeout_s)
        except WorkerDied as death:
            raise SideLost(side, message.get("arm"), death) from None

    def bury(self, side: str) -> None:
        """Ends a side's worker for good; the next `start` makes a fresh one."""
        link = self.links.pop(side, None)
        if link is not None:
            link.close()
            self.restarts += 1

    def renew(self) -> None:
        """Buries every worker."""
        for side in list(self.links):
            self.bury(side)

    def strike(self) -> None:
        """Has all workers killed, and waits for no end: a driver takes its time to clear up behind each."""
        for link in self.links.values():
            link.strike()

    def close(self) -> None:
        """Ends all workers."""
        self.strike()
        for link in self.links.values():
            link.close()
        self.links.clear()
        self.memory.close()
