"""The GPUs of this machine as a run uses them: which ones, their locks, and what was found out of each."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gate import locks
from gate.model.problem import Problem, UnusableInput
from gate.model.text import counted
from gate.replay.arms import ROCR, selecting
from gate.replay.environment import gpu_count
from gate.replay.sensors import Reading
from gate.replay.token import Token

NO_GPU_FIX = "run on a machine with a GPU and its torch build, or judge machine code with 'gate run' instead"


@dataclass(slots=True, kw_only=True)
class Machine:
    """One GPU in this run: its token, its first canary, and what was found out about it."""

    gpu: str | None
    token: Token = field(default_factory=Token)
    sensor: Callable[[], Reading] = Reading
    canary: dict[str, float] | None = None
    canary_at: float = 0.0
    floor_us: float | None = None
    coldness: dict[str, Any] = field(default_factory=dict)
    environments: dict[str, dict[str, str]] = field(default_factory=dict)
    shapes: int = 0
    canary_range: dict[str, list[float]] = field(default_factory=dict)

    def saw(self, canary: dict[str, float]) -> None:
        """Keeps the least and the largest reading of each canary, and when this one was taken."""
        self.canary_at = time.monotonic()
        for name, us in canary.items():
            low, high = self.canary_range.get(name, [us, us])
            self.canary_range[name] = [min(low, us), max(high, us)]

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "gpu": self.gpu,
            "shapes": self.shapes,
            "floor_us": self.floor_us,
            "canary_us": self.canary,
            "canary_range_us": self.canary_range,
            "coldness": self.coldness,
            "environments": self.environments,
            "sensors": self.sensor().as_dict(),
            "token_held_s": round(self.token.held_s, 3),
            "measuring_s": round(self.token.alone_s, 3),
            "preparing_s": round(self.token.shared_s, 3),
            "timed_gpu_s": round(self.token.gpu_us / 1e6, 3),
        }


@dataclass(slots=True, kw_only=True)
class Session:
    """What one call of `measure` did: the machines, how long it took, and why it stopped early, if it did."""

    machines: list[Machine]
    wall_s: float = 0.0
    stopped: str | None = None
    restarts: int = 0

    @property
    def timed_gpu_s(self) -> float:
        """Seconds of device work between the timing events."""
        return sum(machine.token.gpu_us for machine in self.machines) / 1e6

    @property
    def token_held_s(self) -> float:
        """Seconds for which a GPU was prepared or measured on, over all GPUs."""
        return sum(machine.token.held_s for machine in self.machines)

    @property
    def measuring_s(self) -> float:
        """Seconds for which a measurement had a GPU to itself, over all GPUs."""
        return sum(machine.token.alone_s for machine in self.machines)

    @property
    def busy_s(self) -> tuple[float, float, float]:
        """Seconds in use, measured on, and of timed work, over all GPUs."""
        return self.token_held_s, self.measuring_s, self.timed_gpu_s


def visible_gpus(wanted: str, environment: dict[str, str] | None = None) -> list[str | None]:
    """The GPUs to use: `all`, a number of them, or a list of indices such as `0,2`.

    Raises UnusableInput when the machine has none or fewer.
    """
    env = dict(os.environ) if environment is None else environment
    named = next(filter(None, (env.get(name) for name in selecting(env))), None)
    present = [entry for entry in named.split(",") if entry] if named else [str(i) for i in range(gpu_count())]
    if not present:
        raise UnusableInput(Problem(what="no GPU: this machine has none that torch could use", file="", fix=NO_GPU_FIX))
    if wanted == "all":
        return list(present)
    picked = picked_gpus(wanted)
    if not picked or max(picked) >= len(present):
        what = f"--gpus {wanted} asks for more than the {counted(len(present), 'GPU there is', 'GPUs there are')}"
        raise UnusableInput(Problem(what=what, file="", fix="give --gpus all"))
    return [present[index] for index in picked]


def picked_gpus(wanted: str) -> list[int]:
    """The indices that a number of GPUs, or a list such as `0,2`, asks for; each once."""
    if "," not in wanted:
        return list(range(int(wanted)))
    return list(dict.fromkeys(int(item) for item in wanted.split(",") if item))


def physical(gpu: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """What the machine calls a GPU of `visible_gpus`: HIP's entries count within what ROCR_VISIBLE_DEVICES leaves."""
    name, left = gpu or "0", [entry for entry in environment.get(ROCR, "").split(",") if entry]
    within = ROCR not in selecting(environment) and name.isdigit() and int(name) < len(left)
    return left[int(name)] if within else name


def lock_gpu(gpu: str | None) -> int:
    """Takes this machine's lock of one GPU, so that two runs never measure on it at once. Raises UnusableInput."""
    path = Path(tempfile.gettempdir()) / f"flydsl-gate-gpu-{physical(gpu)}.lock"
    try:
        return locks.take(path, unsigned=True)
    except locks.Busy:
        what = f"GPU {gpu or 0} is being measured by another run"
        raise UnusableInput(Problem(what=what, file=str(path), fix="wait for it, or choose other --gpus")) from None
