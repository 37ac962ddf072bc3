"""What is to be measured: one job per shape with its arms, and the settings of a session; values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from gate.replay.arms import ArmSpec
from gate.replay.blocks import BASE, CONTROL, HEAD, Arm
from gate.replay.integrity import CANARY_DRIFT
from gate.replay.op import Case
from gate.replay.timer import GRAPH_BUDGET_US

# Seconds a worker may take for one command before it counts as hung.
TIMEOUTS: dict[str, float] = {
    "wake": 180,
    "hello": 180,
    "adopt": 30,
    "lend": 60,
    "borrow": 60,
    "open": 300,
    "pilot": 180,
    "build": 90,
    "capture": 90,
    "check": 90,
    "profile": 60,
    "visit": 20,
    "finish": 60,
    "recheck": 90,
    "drop": 60,
    "floor": 60,
    "coldness": 60,
    "canary": 30,
}


# What a ring makes of the caches, from the coldest on.
WARMTH = ("cold_hbm", "cold_l2", "hot")
# Lanes that share a GPU, one measuring at a time: what costs is to start and to prepare, and that overlaps.
MOST_LANES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One arm to be measured on a shape, and where its kernel is found."""

    arm: Arm
    entrypoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One shape and all its arms. `op` overrides where the op is defined (`module:ATTR`).

    `blocks` names the blocks [first, stop) that one fresh process pair, numbered `process`, measures; without it the
    shape is measured look by look until it is clearly clean.
    """

    case: Case
    targets: tuple[Target, ...]
    op: str | None = None
    process: int = 0
    blocks: tuple[int, int] | None = None

    def of_side(self, side: str) -> list[Arm]:
        """The job's arms on one side."""
        return [target.arm for target in self.targets if target.arm.side == side]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One session. `looks` are block counts at which a comparison may stop; `device` is `gpu` or `sim:...`.

    `secret` seeds the input values and is drawn anew per run, so that no kernel can know them; `seed` only orders
    the blocks. `timing` off means a correctness pass. `drift` is the fraction by which a canary may move before the
    session stops. `pinned`: lane i measures the jobs of every process i + n * lanes and no others, each number in
    workers of its own, so that many process pairs share a session.
    """

    session_id: str
    seed: int
    secret: int
    arms: Mapping[str, ArmSpec]
    folder: Path
    device: str = "gpu"
    method: str = "graph_slope"
    looks: tuple[int, ...] = (4, 6, 8)
    budget_us: float = GRAPH_BUDGET_US
    lanes: int = 1
    pinned: bool = False
    timing: bool = True
    drift: float = CANARY_DRIFT
    timeouts: Mapping[str, float] = field(default_factory=lambda: dict(TIMEOUTS))

    def timeout_s(self, command: str) -> float:
        """The watchdog for one command."""
        return self.timeouts.get(command, TIMEOUTS[command])


@dataclass(slots=True, kw_only=True)
class ArmResult:
    """What came of one arm on one shape; `visits` holds one list of microseconds per block,
    `processes` the number of the process that measured each block; `shared` means that head's and base's rings lay in
    the same memory."""

    status: str = "ok"
    reason: str | None = None
    code: str | None = None
    detail: str | None = None
    commit: str | None = None
    allocation: bool | None = None
    layout: bool | None = None
    jit: bool | None = None
    capture_error: str | None = None
    plan: dict[str, Any] | None = None
    shared: bool = False
    visits: list[list[float]] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)
    profiled_us: float | None = None
    eager_us: float | None = None
    max_abs: float | None = None
    bytes_moved: float | None = None
    flops: float | None = None
    gpu_us: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        """Whether the arm can still be measured."""
        return self.status == "ok"

    def planned(self, plan: Mapping[str, Any]) -> None:
        """Takes the ring of one more look. What was measured before it may have been less cold, or short of memory."""
        before = self.plan if self.plan is not None and self.visits else plan
        state = max(plan["cache_state"], before["cache_state"], key=WARMTH.index)
        self.plan = {**plan, "cache_state": state, "short": plan["short"] or before["short"]}

    def fail(self, *, status: str, reason: str, code: str | None = None) -> None:
        """Ends the arm; its times so far are void."""
        self.status, self.reason, self.code = status, reason, code

    def as_dict(self) -> dict[str, Any]:
        """For the journal."""
        return asdict(self)


def even(blocks: int, processes: int) -> list[int]:
    """So many blocks for each process pair, none of them empty."""
    each, rest = divmod(blocks, processes)
    return [size for number in range(processes) if (size := each + (number < rest))]


def spread(jobs: Sequence[Job], *, first: int, sizes: Sequence[int], process: int) -> list[Job]:
    """Every shape once for each fresh process pair: `sizes` are the blocks of each, from block `first` on.

    The process pairs are numbered from `process`.
    """
    starts = list(accumulate(sizes, initial=first))
    return [
        replace(job, process=process + number, blocks=(starts[number], starts[number + 1]))
        for number in range(len(sizes))
        for job in jobs
    ]


def side_of(*, provider: str, candidate: str) -> tuple[str, ...]:
    """The sides on which a provider runs: the candidate on head and base, everything else as control."""
    return (HEAD, BASE) if provider == candidate else (CONTROL,)
