"""The process that holds one side's arms: reads one JSON command a line, answers with one, and may die without harm.

Started by path in any interpreter that has torch (see `boot.py`); standard library besides. The answers leave on a
private copy of standard output, because kernels and runtimes print there.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from gate.replay import coldness, compiling, timer
from gate.replay.cell import Cell
from gate.replay.device import Device, DeviceError, NoRoom, open_device
from gate.replay.environment import worker_environment
from gate.replay.failures import failure
from gate.replay.link import FILES_VARIABLE
from gate.replay.op import Case, load_op
from gate.replay.provider import load_entrypoint, told, told_of
from gate.replay.timer import RingPlan

Reply = dict[str, Any]
PR_SET_PDEATHSIG = 1
# The part of the card that all lanes together may share out; one ring each is enough.
SHARED_SHARE = 0.3
PAGE_BYTES = 4096
# The part of the card that may stay with a worker who does not use it, over the lanes.
IDLE_SHARE = 0.04


class Worker:
    """The commands, one method each; `cells` are the arms of the current shape."""

    def __init__(self) -> None:
        self.device: Device | None = None
        self.cells: dict[str, Cell] = {}
        self.lanes = 1

    @property
    def gpu(self) -> Device:
        if self.device is None:
            raise DeviceError("no device is open", fatal=True)
        return self.device

    def wake(self, message: Reply) -> Reply:
        """Imports what takes long and touches no GPU."""
        if message["device"] == "gpu":
            for name in ("torch", "triton"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        return {}

    def hello(self, message: Reply) -> Reply:
        self.device, self.lanes = open_device(message["device"]), int(message.get("lanes", 1))
        self.device.warm_profiler()
        # Later collections, which giving memory back may need, pass over what was imported for good.
        gc.freeze()
        facts = self.device.facts
        return {
            "environment": worker_environment(self.device),
            "chip": {
                "name": facts.chip.name,
                "l2_bytes": facts.chip.l2_bytes,
                "mall_bytes": facts.chip.mall_bytes,
                "bandwidth_gbps": facts.chip.bandwidth_gbps,
                "tflops": facts.chip.tflops,
            },
            "pid": os.getpid(),
        }

    def adopt(self, message: Reply) -> Reply:
        """Puts an arm's entries in front of the path of a worker that was started before the arm was known.

        What PYTHONPATH would have put there, as long as nothing of it has been imported yet.
        """
        sys.path[:0] = message["path"]
        inherited = list(filter(None, [os.environ.get("PYTHONPATH")]))
        os.environ["PYTHONPATH"] = os.pathsep.join([*message["path"], *inherited])
        importlib.invalidate_caches()
        return {}

    def open(self, message: Reply) -> Reply:
        """Loads the kernel and compiles it; nothing here runs on the GPU."""
        case = Case(**message["case"])
        adapter = load_entrypoint(message["entrypoint"], case.op_type)
        op = load_op(message.get("op") or case.op_type)
        refusal = op.refusal(case) or adapter.supports(case)
        if refusal is not None:
            return {"status": "unsupported", "reason": refusal}
        compiling.THREADS.set(compiling.fair_threads())
        adapter.compile(case)
        said = told(adapter, case)
        self.cells[message["arm"]] = Cell(device=self.gpu, adapter=adapter, op=op, case=case, seed=int(message["seed"]))
        return said

    def pilot(self, message: Reply) -> Reply:
        self.gpu.begin(message.get("label", ""))
        return {**self.cells[message["arm"]].pilot(), "free_bytes": self.gpu.free_bytes()}

    def lend(self, message: Reply) -> Reply:
        """Makes the memory that the workers of a lane share, and hands it to the coordinator."""
        wanted = min(timer.SHARED_BYTES, SHARED_SHARE * self.gpu.facts.total_bytes / int(message["lanes"]))
        descriptor, size = self.gpu.lend(int(wanted) // PAGE_BYTES * PAGE_BYTES)
        with files() as channel:
            socket.send_fds(channel, [b"f"], [descriptor])
        os.close(descriptor)
        return {"bytes": size}

    def borrow(self, message: Reply) -> Reply:
        with files() as channel:
            _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        self.gpu.borrow(descriptors[0], int(message["bytes"]))
        os.close(descriptors[0])
        return {}

    def build(self, message: Reply) -> Reply:
        cell = self.cells[message["arm"]]
        # Memory of the shape before goes back here, where nobody measures.
        trim_s = self._trim()
        try:
            cell.build(RingPlan(**message["plan"]), shared=bool(message.get("shared")))
        except NoRoom as error:
            return {"no_room": str(error)}
        chosen = told_of(cell.adapter, cell.states[0])
        return {"no_room": None, "inputs": cell.input_digest, "chosen": chosen, "trim_s": trim_s}

    def _trim(self) -> float:
        """Gives idle memory back; the seconds that took."""
        began = time.perf_counter()
        self.gpu.trim(IDLE_SHARE / self.lanes)
        return time.perf_counter() - began

    def capture(self, message: Reply) -> Reply:
        return self.cells[message["arm"]].capture()

    def check(self, message: Reply) -> Reply:
        found = self.cells[message["arm"]].check(twin=bool(message.get("twin")), like=message.get("like"))
        # The references took several times the ring; what they leave lying idle, other lanes may need.
        return {**found, "trim_s": self._trim()}

    def profile(self, message: Reply) -> Reply:
        return self.cells[message["arm"]].profile()

    def visit(self, message: Reply) -> Reply:
        self.gpu.begin(message["label"])
        visit = self.cells[message["arm"]].visit(message["method"], replays=int(message["replays"]))
        return {"t_us": visit.t_us, "full_us": visit.full_us, "single_us": visit.single_us, "gpu_us": visit.gpu_us}

    def finish(self, message: Reply) -> Reply:
        self.gpu.begin(message["label"])
        return self.cells[message["arm"]].finish(message["times_us"], slope=message["method"] == "graph_slope")

    def recheck(self, message: Reply) -> Reply:
        return {**self.cells[message["arm"]].recheck(), "trim_s": self._trim()}

    def drop(self, message: Reply) -> Reply:
        del message
        for cell in self.cells.values():
            cell.release()
        self.cells.clear()
        return {}

    def floor(self, message: Reply) -> Reply:
        del message
        return {"floor_us": timer.session_floor_us(self.gpu)}

    def coldness(self, message: Reply) -> Reply:
        del message
        sizes = [size for size in coldness.PROBE_SIZES if size * 2 < self.gpu.free_bytes()]
        probes = coldness.probe_all(self.gpu, sizes)
        self._trim()
        verdict = coldness.verdict(probes, self.gpu.facts.chip)
        table = [{"bytes": p.bytes, "hot_gbps": p.hot_gbps, "cold_gbps": p.cold_gbps} for p in probes]
        return {"probes": table, "verdict": verdict}

    def canary(self, message: Reply) -> Reply:
        return {"canary": self.gpu.canary(int(message["warm"]))}


COMMANDS: dict[str, Callable[[Worker, Reply], Reply]] = {
    name: getattr(Worker, name)
    for name in (
        "wake", "hello", "adopt", "lend", "borrow", "open", "pilot", "build", "capture", "check", "profile", "visit",
        "finish", "recheck", "drop", "floor", "coldness", "canary",
    )
}  # fmt: skip


def files() -> socket.socket:
    """This process's end of the socket over which open files pass."""
    return socket.socket(fileno=os.dup(int(os.environ[FILES_VARIABLE])))


def answer(worker: Worker, message: Reply) -> Reply:
    """Carries out one command; whatever it raises becomes the reply. This is the worker boundary."""
    started = time.perf_counter()
    try:
        reply = {"status": "ok", **COMMANDS[message["do"]](worker, message)}
    except Exception as error:  # noqa: BLE001  a kernel may raise anything, and it costs its own row only
        reply = failure(error)
    return {**reply, "id": message.get("id"), "wall_s": round(time.perf_counter() - started, 6)}


def die_with_parent() -> None:
    """Asks Linux to kill this process when the coordinator dies, however it dies."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return


def private_stdout() -> TextIO:
    """Keeps standard output for the answers and sends everything printed by others to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def main() -> int:
    """Serves until standard input closes."""
    die_with_parent()
    channel = private_stdout()
    worker = Worker()
    for line in sys.stdin:
        channel.write(json.dumps(answer(worker, json.loads(line)), allow_nan=True) + "\n")
        channel.flush()
    return 0
