"""The points of the plots that a decision does not hold: roofline, spread, and the controls row by row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from gate.analysis import physics
from gate.analysis.cells import Cell
from gate.model.report import NoisePoint, Roof, RoofPoint


def roofline(cells: Iterable[Cell]) -> Iterator[RoofPoint]:
    """Points of the rows that say both what they moved and what they computed."""
    for cell in cells:
        outcome = cell.head_arm.outcome
        if cell.head_arm.time_us is None or outcome is None:
            continue
        gbps, tflops = outcome.effective_gbps, outcome.effective_tflops
        if gbps and tflops and 0 < gbps < math.inf and 0 < tflops < math.inf:
            yield RoofPoint(op_type=cell.shape.op_type, flop_per_byte=tflops * 1e3 / gbps, tflops=tflops)


def roof(cells: Iterable[Cell]) -> Roof | None:
    """The peaks of the GPU that the candidate ran on, None where its name is unknown."""
    name = next((cell.head_arm.outcome.gpu for cell in cells if cell.head_arm.outcome is not None), None)
    found = physics.gpu(name)
    if found is None or name is None:
        return None
    return Roof(gpu=name, tb_per_s=found.bytes_per_s / 1e12, tflops_16=found.flops_16 / 1e12)


def noise(cells: Iterable[Cell]) -> Iterator[NoisePoint]:
    """The spread of each candidate row that says its percentiles."""
    for cell in cells:
        outcome, time = cell.head_arm.outcome, cell.head_arm.time_us
        if time is not None and outcome is not None and outcome.p10_us and outcome.p90_us and outcome.p10_us > 0:
            spread = outcome.p90_us / outcome.p10_us
            if 1 <= spread < math.inf:
                yield NoisePoint(op_type=cell.shape.op_type, time_us=time, spread=spread)


def controls(cells: Iterable[Cell]) -> dict[str, tuple[float, ...]]:
    """Head over base of every row of every baseline that both runs timed in one way."""
    ratios: dict[str, list[float]] = {}
    for cell in cells:
        for name in cell.rivals:
            old, new = cell.base[name], cell.head[name]
            if old.time_us and new.time_us and old.outcome is not None and new.outcome is not None:
                one, two = old.outcome, new.outcome
                if (one.timing_method, one.cache_state) == (two.timing_method, two.cache_state):
                    ratios.setdefault(name, []).append(new.time_us / old.time_us)
    return {name: tuple(values) for name, values in sorted(ratios.items())}
