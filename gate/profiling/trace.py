"""What a profiler's trace holds, whichever tool wrote it: dispatches, copies, the GPUs, and remarks on what is odd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from gate.model.diagnosis import Dim3, Tool
from gate.model.text import counted

# As many remarks of one kind are told one by one; the rest are counted.
TOLD = 3


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel that ran: device time in nanoseconds, grid in workgroups, the rest as the tool reports it."""

    name: str
    start_ns: float
    took_ns: float
    agent: str = ""
    grid: Dim3 | None = None
    workgroup: Dim3 | None = None
    lds_bytes: int | None = None
    scratch_bytes: int | None = None
    vgpr: int | None = None
    agpr: int | None = None
    sgpr: int | None = None
    occupancy: float | None = None
    workgroups_per_cu: float | None = None

    @property
    def us(self) -> float:
        """Device time, microseconds."""
        return self.took_ns / 1e3


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU or CPU of the machine: its names in the trace, product, architecture and compute units."""

    names: tuple[str, ...]
    product: str = ""
    arch: str = ""
    cus: int | None = None
    is_gpu: bool = True


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One trace: `lds_exact` when LDS is in bytes and not in a multiple of 512, `copies` counts memory copies."""

    tool: Tool
    dispatches: tuple[Dispatch, ...]
    agents: tuple[Agent, ...] = ()
    copies: int = 0
    lds_exact: bool = True
    notes: tuple[str, ...] = ()

    def agent(self, name: str) -> Agent | None:
        """The agent of that name, or the only GPU."""
        found = next((agent for agent in self.agents if name in agent.names), None)
        gpus = [agent for agent in self.agents if agent.is_gpu]
        return found or (gpus[0] if len(gpus) == 1 else None)


class Remarks:
    """Collects remarks by kind, so that a file with a thousand bad lines gives a few of them and a count."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._told: list[str] = []

    def add(self, kind: str, text: str) -> None:
        """One remark; only the first few of a kind keep their text."""
        self._counts[kind] += 1
        if self._counts[kind] <= TOLD:
            self._told.append(text)

    def texts(self) -> tuple[str, ...]:
        """What is to be told, in order of appearance."""
        more = (f"{counted(count - TOLD, 'more line')}: {kind}" for kind, count in self._counts.items() if count > TOLD)
        return (*self._told, *more)


def whole(value: object) -> int | None:
    """A count as a tool writes it, or None for what is no whole number of zero or more."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(str(value).strip())
    except ValueError:
        return None
    return int(number) if number.is_integer() and 0 <= number < 2**63 else None


def dim3(values: Iterable[object]) -> Dim3 | None:
    """Three positive counts, or None where one is none."""
    found = [whole(value) for value in values]
    if len(found) != 3 or any(not count for count in found):
        return None
    x, y, z = (count or 1 for count in found)
    return (x, y, z)


def in_workgroups(items: Dim3 | None, workgroup: Dim3 | None) -> Dim3 | None:
    """A grid given in work-items as AMD's tools do, in workgroups; a last group may be partly empty."""
    if items is None or workgroup is None:
        return None
    x, y, z = (-(-total // size) for total, size in zip(items, workgroup, strict=True))
    return (x, y, z)
