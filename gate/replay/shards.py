"""How a run is shared out over runners: what each shape costs, and shards of equal cost; values only."""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gate.replay.job import Job
from gate.replay.op import UnknownOp, load_op

# Seconds that one arm of a shape takes whatever its size, and the rates at which its size adds to that: making and
# checking ring copies runs at a small part of a card's bandwidth. Fitted to nothing: measured costs replace them.
ARM_S = 0.15
BYTES_PER_S = 40e9
FLOPS_PER_S = 60e12
# Seconds before a runner measures anything: workers, self-test.
START_S = 30.0
# How much of the summed seconds is wall time, where no run has shown it: lanes overlap, but most of it holds the GPU.
WALL_SHARE = 0.9
RUNNERS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of each shape by shape_id, how many of them were measured, and the share of them that is wall time."""

    seconds: Mapping[str, float]
    measured: int
    wall_share: float


def modelled_s(job: Job) -> float:
    """A guess from bytes, flops and the number of arms, for a shape that was never measured."""
    arms = max(len(job.targets), 1)
    try:
        op = load_op(job.op or job.case.op_type)
        moved, flops = op.bytes_moved(job.case), op.flops(job.case)
    except (UnknownOp, LookupError, TypeError, ValueError, ZeroDivisionError):
        moved, flops = 0.0, 0.0
    return arms * (ARM_S + moved / BYTES_PER_S + flops / FLOPS_PER_S)


def recorded_s(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The seconds that an earlier run spent on one arm of each shape, from the lines of its journal."""
    found: dict[str, float] = {}
    for record in records:
        spent = sum(float(seconds) for seconds in record.get("spent_s", {}).values())
        found[record["shape_id"]] = found.get(record["shape_id"], 0.0) + spent / max(len(record.get("arms", ())), 1)
    return found


def costs_of(jobs: Sequence[Job], recorded: Mapping[str, float], *, wall_share: float | None = None) -> Costs:
    """Measured costs where there are some; the others by the model, in proportion to what it says of measured ones.

    `recorded` are seconds of one arm by shape_id, as of `recorded_s`.
    """
    guessed = {job.case.shape_id: modelled_s(job) for job in jobs}
    arms = {job.case.shape_id: max(len(job.targets), 1) for job in jobs}
    known = {one: recorded[one] * arms[one] for one in guessed if recorded.get(one, 0.0) > 0}
    scale = statistics.median(seconds / guessed[shape_id] for shape_id, seconds in known.items()) if known else 1.0
    seconds = {shape_id: known.get(shape_id, scale * guess) for shape_id, guess in guessed.items()}
    return Costs(seconds=seconds, measured=len(known), wall_share=wall_share or WALL_SHARE)


def partition(costs: Costs, runners: int) -> list[list[str]]:
    """`runners` lists of shape ids, each in the given order: the dearest shape first, always to the cheapest shard.

    Longest processing time first (Graham 1969): at most a third worse than the best. Equal costs, equal shards.
    """
    order = {shape_id: number for number, shape_id in enumerate(costs.seconds)}
    loads = [(0.0, shard) for shard in range(runners)]
    shards: list[list[str]] = [[] for _ in range(runners)]
    for shape_id in sorted(order, key=lambda one: (-costs.seconds[one], one)):
        load, shard = heapq.heappop(loads)
        shards[shard].append(shape_id)
        heapq.heappush(loads, (load + costs.seconds[shape_id], shard))
    return [sorted(shard, key=order.__getitem__) for shard in shards]


def minutes(costs: Costs, shapes: Iterable[str]) -> float:
    """Minutes that a runner takes for these shapes, its start included."""
    return (START_S + costs.wall_share * sum(costs.seconds[shape_id] for shape_id in shapes)) / 60


def estimates(costs: Costs, runners: Iterable[int] = RUNNERS) -> dict[int, float]:
    """Minutes until the last of so many runners is done."""
    return {n: max(minutes(costs, shard) for shard in partition(costs, n)) for n in runners}
