"""Starts pairs of bench workers and takes one arm of each through open, pilot, build and capture."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gate.replay.chips import Chip
from gate.replay.link import Link
from gate.replay.sharing import SharedMemory
from gate.replay.timer import RING_BYTES, plan_ring, room

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KERNEL = "tests.bench.replay_kernels:rmsnorm"


class NoRoomShared(RuntimeError):
    """The ring does not fit into the memory that the sides share."""


class Side:
    """One worker with at most one arm open. It ends with the thread that made it."""

    script = "replay_worker.py"
    limit_s = 180.0

    def __init__(self, name: str) -> None:
        log = Path(tempfile.gettempdir()) / "replay-bench" / f"{name}.log"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, str(HERE / self.script)]
        self.link = Link(name=name, command=command, environment=environment, log=log)
        self.chip: dict[str, Any] = {}

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        reply = self.link.ask({"do": do, "arm": "a", **more}, timeout_s=self.limit_s)
        if reply["status"] != "ok":
            raise RuntimeError(f"{self.link.name} {do}: {reply['status']}: {reply.get('reason')}")
        return reply

    def hello(self) -> dict[str, Any]:
        reply = self.ask("hello", device="gpu")
        self.chip = reply["chip"]
        return reply

    def open(self, args: dict[str, Any], entrypoint: str = KERNEL, op_type: str = "rmsnorm") -> None:
        case = {"shape_id": str(args), "op_type": op_type, "dtype": "bf16", "args": args, "layout": {}}
        self.ask("open", case=case, seed=12345, entrypoint=entrypoint)

    def ready(self, plan: dict[str, Any], memory: SharedMemory | None = None) -> None:
        """Builds and captures; in `memory`, at the same place as every other side, where it is given.

        Raises NoRoomShared."""
        if memory is not None:
            reach(self, memory)
        built = self.ask("build", plan=plan, shared=memory is not None)
        if built["no_room"] is not None:
            raise NoRoomShared(str(built["no_room"]))
        self.ask("capture")


def reach(side: Side, memory: SharedMemory) -> None:
    """The side has the memory mapped. Raises RuntimeError."""
    if not memory.reach(side.link, lambda message: side.ask(**message)):
        raise RuntimeError(f"{side.link.name}: {memory.refusal}")


def planned(
    chip: dict[str, Any], pilots: Sequence[dict[str, Any]], budget_us: float, memory: SharedMemory | None
) -> dict[str, Any]:
    """The ring of all sides, as the engine plans that of head and base: within the memory that they share."""
    return asdict(
        plan_ring(
            footprint_bytes=max(int(pilot["footprint_bytes"]) for pilot in pilots),
            estimate_us=min(float(pilot["estimate_us"]) for pilot in pilots),
            chip=Chip(**chip),
            free_bytes=int(min(pilot["free_bytes"] for pilot in pilots)),
            budget_us=budget_us,
            most_bytes=RING_BYTES if memory is None else room(Chip(**chip), memory.size),
        )
    )


def start(names: list[str]) -> list[Side]:
    """Workers that have answered, started together."""
    sides = [Side(name) for name in names]
    together(sides, lambda side: side.hello())
    return sides


def together(sides: Sequence[Side], do: Callable[[Side], Any]) -> list[Any]:
    """What `do` gives for each side, all at the same time."""
    with ThreadPoolExecutor(len(sides)) as pool:
        return list(pool.map(do, sides))


def prepare_pair(
    head: Side, base: Side, args: list[dict[str, Any]], budget_us: float, *, memory: SharedMemory | None = None
) -> tuple[dict[str, Any], str]:
    """Both arms captured with one plan; `args` are head's and base's. Returns the plan, and why it is not in `memory`.

    The reason is empty where the ring lies in `memory`, or none is given.
    """
    for side in (base, head):
        side.ask("leave")
        if memory is not None:
            reach(side, memory)
    pilots = []
    for side, each in zip((head, base), args, strict=True):
        side.open(each)
        pilots.append(side.ask("pilot"))
    plan = planned(head.chip, pilots, budget_us, memory)
    try:
        for side in (head, base):
            side.ready(plan, memory)
    except NoRoomShared as error:
        if memory is None:
            raise
        return prepare_pair(head, base, args, budget_us)[0], str(error)
    return plan, ""


def abba(
    head: Side, base: Side, blocks: int, do: str, flips: list[bool], **more: Any
) -> tuple[list[float], list[float], float]:
    """Times of each side over ABBA/BAAB blocks, two a block, and the GPU milliseconds it took."""
    times: dict[str, list[float]] = {head.link.name: [], base.link.name: []}
    spent = 0.0
    for block in range(blocks):
        first, second = (head, base) if flips[block % len(flips)] else (base, head)
        for side in (first, second, second, first):
            reply = side.ask(do, **more)
            times[side.link.name].append(reply["t_us"])
            spent += float(reply.get("gpu_ms", 0.0))
    return times[head.link.name], times[base.link.name], spent


def block_ratios(head: Sequence[float], base: Sequence[float]) -> list[float]:
    """The ratio of each block of `abba`'s times: within one drift cancels."""
    return [sum(head[at : at + 2]) / sum(base[at : at + 2]) for at in range(0, len(head), 2)]


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """The mean, and its standard error (nan of a single value)."""
    kept = list(values)
    error = statistics.stdev(kept) / len(kept) ** 0.5 if len(kept) > 1 else float("nan")
    return statistics.fmean(kept), error
