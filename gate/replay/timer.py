"""How a kernel's own time is measured: the slope over a ring of states that is larger than every cache.

Everything here is arithmetic or a short sequence of calls on a Device; nothing knows a provider.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gate.replay.chips import MIB, Chip
from gate.replay.device import Device

GRAPH_BUDGET_US = 2000.0
# What strays from replay to replay is independent: three replays a visit halve the scatter of one.
REPLAYS = 3
SINGLE_REPLAYS = 3
LEGACY_REPLAYS = 15
EAGER_CALLS, FEWEST_EAGER_CALLS, EAGER_US = 15, 3, 5_000.0
DISPATCH_FACTOR = 1.2
STABLE_RATIO = 1.2
MAX_LAUNCHES = 4096
# The part of the free memory that a ring may take, as other lanes and the checks need some.
MEMORY_SHARE = 0.25
# Where head and base cannot lie at one place, many copies average out where they lie.
RING_BYTES = 2 * 1024 * MIB
# Else a ring is at most this many times what evicts all caches, which a cold ring of any state fits into: all of it is
# filled, judged and summed for every arm.
EVICTIONS = 3
# Two copies of large states, which no ring can do with less than, shall still lie in shared memory: of 2 GiB and more.
SHARED_BYTES = 5 * 1024 * MIB
# Memory that a ring takes over its tensors' own bytes, since small copies are spread out.
SPREAD_FACTOR = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RingPlan:
    """How many copies of the state there are, how many launches a graph holds, and what that makes of the caches.

    `flush` evicts all caches before each replay: a small state cannot fill a ring larger than the caches, so every
    copy is used once a replay instead. `budget_us` is the device work asked of one graph, `replays` how many replays of
    it a visit counts. `short` says that the ring would be cold but for the memory that was free.
    """

    copies: int
    launches: int
    flush: bool
    cache_state: str
    budget_us: float
    replays: int = REPLAYS
    short: bool = False


def room(chip: Chip, memory_bytes: int) -> int:
    """How large a ring is made whose place does not matter, in so much memory."""
    return min(EVICTIONS * chip.evict_bytes, int(memory_bytes / SPREAD_FACTOR))


def plan_ring(
    *,
    footprint_bytes: int,
    estimate_us: float,
    chip: Chip,
    free_bytes: int | None,
    budget_us: float = GRAPH_BUDGET_US,
    most_bytes: int = RING_BYTES,
) -> RingPlan:
    """The ring, of at most `most_bytes`, for a state of `footprint_bytes` whose launch takes about `estimate_us`; in
    memory of which `free_bytes` are free, or of its own, where that is None.

    A ring is cold when (copies - 1) x footprint reaches the chip's `evict_bytes`; a graph then makes whole laps, so
    that a copy returns only after all the others. Where memory does not allow that, the label says what is left:
    `cold_l2` (beyond L2 only) or `hot`.
    """
    footprint = max(footprint_bytes, 1)
    within = partial(_plan, footprint_bytes=footprint, estimate_us=estimate_us, chip=chip, budget_us=budget_us)
    wanted, free = within(room_bytes=most_bytes), most_bytes if free_bytes is None else int(free_bytes * MEMORY_SHARE)
    if free >= most_bytes:
        return wanted
    found = within(room_bytes=free)
    return replace(found, short=wanted.cache_state == "cold_hbm" != found.cache_state)


def _plan(*, footprint_bytes: int, estimate_us: float, chip: Chip, budget_us: float, room_bytes: int) -> RingPlan:
    # A launch that is a graph's work by itself needs no more than two of them, and no replay again, to be told apart.
    fewest, replays = (2, 1) if estimate_us >= budget_us else (3, REPLAYS)
    wanted = min(max(round(budget_us / max(estimate_us, 0.1)), fewest), MAX_LAUNCHES)
    affordable = max(room_bytes // footprint_bytes, 2)
    cold = math.ceil(chip.evict_bytes / footprint_bytes) + 1
    if cold > max(wanted, fewest):
        copies, flush = min(wanted, affordable), True
    else:
        # More copies than coldness needs: where a copy lies in memory moves its time by up to a percent, and only
        # copies elsewhere average that out.
        rounds = math.ceil(wanted / affordable)
        copies, flush = max(math.ceil(wanted / rounds), min(cold, affordable)), False
    laps = max(round(wanted / copies), 1)
    if flush and laps == 1:
        state = "cold_hbm"
    else:
        state, flush = cache_state(copies=copies, footprint_bytes=footprint_bytes, chip=chip), False
    return RingPlan(
        copies=copies,
        launches=max(copies * laps, fewest),
        flush=flush,
        cache_state=state,
        budget_us=budget_us,
        replays=replays,
    )


def cache_state(*, copies: int, footprint_bytes: int, chip: Chip) -> str:
    """What is certain of a slice that returns after `copies - 1` others have passed."""
    between = (copies - 1) * footprint_bytes
    if between >= chip.evict_bytes:
        return "cold_hbm"
    if between >= chip.l2_evict_bytes:
        return "cold_l2"
    return "hot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One stay at one arm: t_us per launch, and the replays it was computed from (the discarded ones left out)."""

    t_us: float
    full_us: tuple[float, ...]
    single_us: tuple[float, ...]
    gpu_us: float


def slope_us(*, full_us: Sequence[float], single_us: Sequence[float], launches: int) -> float:
    """(T_n - T_1) / (n - 1), medians of the replays: what one launch adds, whatever a replay itself costs."""
    return (statistics.median(full_us) - statistics.median(single_us)) / (launches - 1)


def visit_slope(device: Device, *, full: Any, single: Any, plan: RingPlan, most: int = REPLAYS) -> Visit:
    """Measures one visit, of the plan's replays or `most`. The first replay is discarded: it pays for the arm's
    absence, up to 55 times the rest."""
    replays = min(plan.replays, most)
    graphs = [full] * (1 + replays) + [single] * min(SINGLE_REPLAYS, plan.replays)
    times = device.timed(graphs, flush=plan.flush)
    full_us, single_us = tuple(times[1 : 1 + replays]), tuple(times[1 + replays :])
    t_us = slope_us(full_us=full_us, single_us=single_us, launches=plan.launches)
    return Visit(t_us=t_us, full_us=full_us, single_us=single_us, gpu_us=sum(times))


def visit_one_launch(device: Device, *, single: Any, replays: int = LEGACY_REPLAYS) -> Visit:
    """The legacy method `cudagraph`: the median of one-launch replays after a 256 MB zero-fill; it keeps the floor."""
    times = device.timed_legacy(single, replays)
    return Visit(t_us=statistics.median(times), full_us=(), single_us=tuple(times), gpu_us=sum(times))


def eager_calls(t_us: float) -> int:
    """How many eager calls are timed of a kernel that takes `t_us`: some, fewer of those that take long."""
    return min(max(round(EAGER_US / max(t_us, 1.0)), FEWEST_EAGER_CALLS), EAGER_CALLS)


def session_floor_us(device: Device, launches: int = 512, replays: int = 5) -> float:
    """What an empty kernel adds to a graph on this device, by the same slope."""

    def enqueue() -> None:
        for _ in range(launches):
            device.empty()

    full, single = device.capture(enqueue), device.capture(device.empty)
    times = device.timed([full] * (1 + replays) + [single] * SINGLE_REPLAYS, flush=False)
    full.close()
    single.close()
    return slope_us(full_us=times[1 : 1 + replays], single_us=times[1 + replays :], launches=launches)


def is_dispatch_bound(t_us: float, floor_us: float) -> bool:
    """Whether the time says more about dispatch than about the kernel."""
    return t_us < DISPATCH_FACTOR * floor_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One arm's visits of a shape in numbers, microseconds; `stable` is p90/p10 <= 1.2."""

    median_us: float
    p10_us: float
    p90_us: float
    mean_us: float
    std_us: float
    min_us: float
    stable: bool


def summarise(values: Sequence[float]) -> Summary:
    """The summary of at least one positive finite time. Raises ValueError otherwise."""
    if not values or any(not math.isfinite(value) or value <= 0 for value in values):
        raise ValueError(f"times must be finite and positive, got {list(values)[:3]}")
    p10, p90 = quantile(values, 0.1), quantile(values, 0.9)
    return Summary(
        median_us=statistics.median(values),
        p10_us=p10,
        p90_us=p90,
        mean_us=statistics.fmean(values),
        std_us=statistics.stdev(values) if len(values) > 1 else 0.0,
        min_us=min(values),
        stable=p90 / p10 <= STABLE_RATIO,
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The linearly interpolated quantile, as numpy's default."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
