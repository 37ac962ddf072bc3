"""Workers and a journal on paper: they answer the coordinator as real ones do, and fail as a test says."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gate.model.problem import Problem, UnusableInput
from gate.replay.link import WorkerDied

ALONE = {"first", "profile", "visit", "finish", "floor", "coldness", "canary"}
BESIDE = {"hello", "lend", "borrow", "pilot", "build", "capture", "check", "recheck"}
# Arms whose first call times kernels, and so has the GPU alone.
TUNES = {"control/aiter"}
CHIP = {"name": "paper", "l2_bytes": 1 << 16, "mall_bytes": 0, "bandwidth_gbps": 4000.0, "tflops": {}}
HANG_S = 0.05
# What an arm must have come from.
AFTER = {"pilot": "open", "build": "pilot", "capture": "build", "check": "capture", "recheck": "finish"}
Reply = dict[str, Any]


@dataclass(slots=True)
class World:
    """The faults by (shape, arm, command), what is in work on each GPU, and what went wrong with the coordinator.

    No more than `room` workers find memory on one GPU; the next is refused, or killed if `host` memory is short.
    Beside other lanes no worker finds any that is not one of the first `early`, and no canary after the first `calm`.
    """

    faults: dict[tuple[str, str, str], str]
    drift_after: int | None = None
    room: int | None = None
    host: bool = False
    early: int | None = None
    calm: int | None = None
    busy: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    wrong: list[str] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    canaries: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def launch(self, *, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Worker:
        """In the place of `Link`."""
        del command, environment, log
        worker = Worker(self, name, len(self.workers))
        self.workers.append(worker)
        return worker

    def fault(self, shape: str, arm: str, do: str) -> str | None:
        """The fault that strikes now; those that pass by themselves strike once."""
        with self.lock:
            key = (shape, arm, do)
            found = self.faults.get(key)
            if found in ("kill", "idle"):
                del self.faults[key]
            return found

    def full(self, newcomer: Worker) -> bool:
        """Whether one more worker finds no memory."""
        gpu = newcomer.gpu
        with self.lock:
            if self.early is not None and self._beside(newcomer) and self.workers.index(newcomer) >= self.early:
                return True
            there = sum(worker.alive and worker.greeted and worker.gpu == gpu for worker in self.workers)
            return self.room is not None and there >= self.room

    def crowded(self, worker: Worker) -> bool:
        """Whether a canary finds no memory beside others."""
        with self.lock:
            return self.calm is not None and self.canaries >= self.calm and self._beside(worker) > 0

    def beside(self, worker: Worker) -> int:
        """How many other lanes have workers on its GPU."""
        with self.lock:
            return self._beside(worker)

    def _beside(self, worker: Worker) -> int:
        alive = {other.lane for other in self.workers if other.alive and other.gpu == worker.gpu}
        return len(alive - {worker.lane})

    @contextmanager
    def working(self, gpu: str, do: str) -> Iterator[None]:
        """A command in work; a measurement with company is wrong."""
        kind = "alone" if do in ALONE else "beside" if do in BESIDE else "free"
        with self.lock:
            self.busy[gpu][kind] += 1
            now = self.busy[gpu]
            if now["alone"] > 1 or (now["alone"] and now["beside"]):
                self.wrong.append(f"{do} on {gpu} beside {dict(now)}")
        try:
            time.sleep(random.random() * 4e-4)
            yield
        finally:
            with self.lock:
                self.busy[gpu][kind] -= 1


class Worker:
    """A worker without a process: answers like `gate.replay.worker`, and fails as the world says."""

    def __init__(self, world: World, name: str, number: int) -> None:
        self.world, self.name, self.pid = world, name, 1_000_000 + number
        self.gpu, self.lane, self.side = name.split("-")
        self.alive, self.greeted, self.lost, self.shared, self.shape = True, False, False, False, ""
        self.cells: dict[str, str] = {}
        self.shapes: set[str] = set()
        self.waiting: list[Reply] = []

    @property
    def ended(self) -> bool:
        return not self.alive

    def send(self, message: Reply) -> int:
        if not self.alive:
            raise WorkerDied("was killed while idle", outside=True)
        self.waiting.append(message)
        return len(self.waiting)

    def receive(self, number: int, *, what: str, timeout_s: float) -> Reply:
        del number, timeout_s
        message = self.waiting.pop()
        if message["do"] != what or self.waiting:
            self.world.wrong.append(f"{self.name}: the reply to {what} is another one's")
        alone = what == "pilot" and (message["arm"] in TUNES or self.side != "control")
        with self.world.working(self.gpu, "first" if alone else what):
            return {"status": "ok", **self.answer(what, message)}

    def ask(self, message: Reply, *, timeout_s: float) -> Reply:
        return self.receive(self.send(message), what=message["do"], timeout_s=timeout_s)

    def answer(self, do: str, message: Reply) -> Reply:
        arm = message.get("arm")
        if do == "open":
            self.shape = message["case"]["shape_id"]
            self.shapes.add(self.shape)
        fault = self.world.fault(self.shape, arm, do) if arm is not None else None
        if fault in ("kill", "crash", "hang"):
            time.sleep(HANG_S if fault == "hang" else 0)
            self.alive = False
            raise WorkerDied(f"{fault} in {do}", outside=fault == "kill", hung=fault == "hang")
        self.alive = fault != "idle"
        self.lost = self.lost or fault == "fatal"
        if self.lost and do not in ("wake", "drop"):
            return {"status": "failed", "reason": f"context lost in {do}", "fatal": True}
        full = do == "hello" and self.world.full(self)
        if full and self.world.host:
            self.alive = False
            raise WorkerDied("killed as it started", outside=True)
        full = full or (do == "canary" and self.world.crowded(self))
        others = self.world.beside(self)
        beside = others > {"oom beside": 0, "oom beside many": 1}.get(str(fault), others)
        left = fault == "oom behind others" and len(self.shapes) > 1
        if full or fault == "oom" or beside or left:
            return {"status": "oom", "reason": "full"}
        self.greeted = self.greeted or do == "hello"
        if fault == "fail":
            return {"status": "failed", "reason": "raises"}
        return self.done(do, message, fault)

    def done(self, do: str, message: Reply, fault: str | None) -> Reply:
        """What a command gives that succeeds; an arm must have come to it step by step."""
        arm = message.get("arm")
        if arm is not None:
            if do in AFTER and self.cells.get(arm) != AFTER[do]:
                self.world.wrong.append(f"{arm}: {do} after {self.cells.get(arm)}")
            self.cells[arm] = do
        if do == "check" and message["like"] is not None and not self.shared:
            self.world.wrong.append(f"{arm} is told what another arm with memory of its own wrote")
        shared = message.get("shared", False)
        bad = {"status": "incorrect", "code": "wrong_output" if fault == "wrong" else "inputs_changed", "text": fault}
        findings = [bad] if fault == "wrong" or (fault == "overwritten" and self.shared) else []
        if do == "build":
            self.shared = shared
            no_room = "too small" if shared and fault == "no room" else None
            inputs = [self.side if fault == "other inputs" and shared else 1]
            return {"no_room": no_room, "inputs": inputs, "chosen": ""}
        if do == "drop":
            self.cells.clear()
        if do == "visit":
            t_us = 10.0 + random.Random(message["label"]).random() * 0.01
            return {"t_us": t_us, "full_us": [t_us], "single_us": [t_us], "gpu_us": t_us}
        free = 1 << 14 if fault == "crowded" and self.world.beside(self) else 1 << 30
        replies: dict[str, Reply] = {
            "hello": {"environment": {"gpu": "paper"}, "chip": CHIP},
            "open": {**dict.fromkeys(("detail", "commit", "allocation", "layout", "jit")), "tunes": arm in TUNES},
            "pilot": {"estimate_us": 10.0, "footprint_bytes": 4096, "free_bytes": free, "peak_share": None},
            "check": {"right": None if findings else {"inputs": [1], "outputs": [2], "max_abs": 0.0}},
            "lend": {"bytes": 1 << 24},
            "floor": {"floor_us": 1.0},
            "coldness": {"probes": [], "verdict": None},
            "canary": {"canary": {"spin": self.canary() if do == "canary" else 0.0}},
            "profile": {"profiled_us": 10.0},
            "finish": {"profiled_us": 10.0, "eager_us": 20.0, "bytes_moved": 1.0, "flops": 1.0},
        }
        return {**replies.get(do, {}), "findings": findings}

    def canary(self) -> float:
        with self.world.lock:
            self.world.canaries += 1
            drifted = self.world.drift_after is not None and self.world.canaries > self.world.drift_after
        return 110.0 if drifted else 100.0

    def give_file(self, descriptor: int) -> None:
        os.fstat(descriptor)

    def take_file(self) -> int:
        return os.open(os.devnull, os.O_RDONLY)

    def kill(self) -> None:
        self.alive = False

    strike = close = kill


class Paper:
    """In the place of a journal; `full_after` so many records there is no more room, but for the next one."""

    def __init__(self, full_after: int | None) -> None:
        self.records: list[Reply] = []
        self.full_after = full_after

    def append(self, record: Reply) -> None:
        if self.full_after is not None and len(self.records) >= self.full_after:
            self.full_after = None
            raise UnusableInput(Problem(what="no room", file="", fix=""))
        self.records.append(record)
