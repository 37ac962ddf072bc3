"""Launchers whose graph missed the kernel: the one-launch graph is far shorter than the eager call it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gate.model.outcome import AnyOutcome
from gate.model.shape import Shape

# Host overhead of one call explains this much; on public MI350X results it stays below 140 us (p99).
HOST_OVERHEAD_US = 200.0
FACTOR = 2.0
Launcher = tuple[str, str]


def missed(outcome: AnyOutcome) -> bool:
    """Whether this row's graph time cannot be the time of its eager call."""
    graph, eager = outcome.median_us, outcome.eager_median_us
    if outcome.timing_method != "cudagraph" or outcome.benchmark_status != "ok" or graph is None or eager is None:
        return False
    return eager > FACTOR * graph and eager - graph > HOST_OVERHEAD_US


def missing_launchers(outcomes: Iterable[AnyOutcome], shapes: Mapping[str, Shape]) -> frozenset[Launcher]:
    """(op_type, provider) of launchers whose graphs miss the kernel on two shapes or more.

    Binding a stream at build time is a property of the launcher, so all its graph rows are void, short ones too.
    """
    counts: dict[Launcher, int] = {}
    for outcome in outcomes:
        if outcome.timing_method != "cudagraph" or not missed(outcome):
            continue
        shape = shapes.get(outcome.shape_id)
        if shape is not None:
            key = (shape.op_type, outcome.provider)
            counts[key] = counts.get(key, 0) + 1
    return frozenset(key for key, count in counts.items() if count >= 2)
