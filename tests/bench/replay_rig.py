"""Starts pairs of bench workers and takes one arm of each through open, pilot, build and capture."""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gate.replay.chips import Chip
from gate.replay.link import Link
from gate.replay.sharing import SharedMemory
from gate.replay.timer import plan_ring

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KERNEL = "tests.bench.replay_kernels:rmsnorm"
LIMIT_S = 180.0


class Side:
    """One worker with at most one arm open."""

    def __init__(self, name: str) -> None:
        log = Path(tempfile.gettempdir()) / "replay-bench" / f"{name}.log"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, str(HERE / "replay_worker.py")]
        self.link = Link(name=name, command=command, environment=environment, log=log)
        self.chip: dict[str, Any] = {}

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        reply = self.link.ask({"do": do, "arm": "a", **more}, timeout_s=LIMIT_S)
        if reply["status"] != "ok":
            raise RuntimeError(f"{self.link.name} {do}: {reply}")
        return reply

    def hello(self) -> dict[str, Any]:
        reply = self.ask("hello", device="gpu")
        self.chip = reply["chip"]
        return reply

    def open(self, args: dict[str, Any], entrypoint: str = KERNEL, op_type: str = "rmsnorm") -> dict[str, Any]:
        case = {"shape_id": str(args), "op_type": op_type, "dtype": "bf16", "args": args, "layout": {}}
        self.ask("open", case=case, seed=12345, entrypoint=entrypoint)
        return self.ask("pilot")

    def plan(self, pilots: list[dict[str, Any]], budget_us: float) -> dict[str, Any]:
        return asdict(
            plan_ring(
                footprint_bytes=int(pilots[0]["footprint_bytes"]),
                estimate_us=min(float(pilot["estimate_us"]) for pilot in pilots),
                chip=Chip(**self.chip),
                free_bytes=int(min(pilot["free_bytes"] for pilot in pilots)),
                budget_us=budget_us,
            )
        )

    def ready(self, plan: dict[str, Any], memory: SharedMemory | None = None) -> None:
        """Builds and captures; in `memory`, at the same place as every other side, where it is given."""
        if memory is not None and not memory.reach(self.link, lambda message: self.ask(**message)):
            raise RuntimeError(f"{self.link.name}: {memory.refusal}")
        built = self.ask("build", plan=plan, shared=memory is not None)
        if built["no_room"] is not None:
            raise RuntimeError(f"{self.link.name}: {built['no_room']}")
        self.ask("capture")


def start(names: list[str]) -> list[Side]:
    """Workers that have answered, started together."""
    sides = [Side(name) for name in names]
    with ThreadPoolExecutor(len(sides)) as pool:
        list(pool.map(lambda side: side.hello(), sides))
    return sides


def prepare_pair(
    head: Side,
    base: Side,
    args: list[dict[str, Any]],
    budget_us: float,
    *,
    memory: SharedMemory | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Both arms captured with one plan; `args` are head's and base's. Returns the plan."""
    for side in (base, head):
        side.ask("leave")
    pilots = [side.open(each, **more) for side, each in zip((head, base), args, strict=True)]
    plan = head.plan(pilots, budget_us)
    for side in (head, base):
        side.ready(plan, memory)
    return plan


def abba(
    head: Side, base: Side, blocks: int, do: str, flips: list[bool], **more: Any
) -> tuple[list[float], list[float], float]:
    """Times of each side over ABBA/BAAB blocks, and the GPU milliseconds it took."""
    times: dict[str, list[float]] = {head.link.name: [], base.link.name: []}
    spent = 0.0
    for block in range(blocks):
        first, second = (head, base) if flips[block % len(flips)] else (base, head)
        for side in (first, second, second, first):
            reply = side.ask(do, **more)
            times[side.link.name].append(reply["t_us"])
            spent += float(reply.get("gpu_ms", 0.0))
    return times[head.link.name], times[base.link.name], spent
