"""What is made of an arm's first calls, beside which other lanes may be on the GPU: a first time, and its weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from gate.replay import integrity
from gate.replay.chips import MIB, Chip
from gate.replay.device import Device
from gate.replay.op import Case, Op
from gate.replay.timer import SINGLE_REPLAYS

REPLAYS = 4
# One launch that takes so long needs no longer graph to be told from a replay's own time.
LONG_REPLAYS, LONG_US = 2, 5_000.0
# Launches by the bytes that one moves at most: a short kernel needs more of them before its slope rises out of a
# replay's own noise, of a large state two copies are enough memory to take beside others.
COPIES = ((32, 4 * MIB), (4, 512 * MIB), (2, math.inf))
# What a replay takes at most by itself.
REPLAY_US = 50.0
LEAST_US = 0.1


def copies(bytes_moved: float) -> int:
    """How many copies of the state there are, and launches in the longer of the two graphs."""
    return next(count for count, most in COPIES if bytes_moved < most)


def timed(
    device: Device, enqueue: Callable[[int], None], *, launches: int, op: Op, case: Case, chip: Chip
) -> tuple[float, float]:
    """Microseconds of one launch, and those of all that was timed; `enqueue` makes so many launches.

    Raises integrity.Ended where the clock gives no numbers.
    """
    one = device.capture(partial(enqueue, 1))
    # Replayed, since a call's own host work, and turns that others take meanwhile, may be longer than its kernels.
    first = device.timed([one] * LONG_REPLAYS, flush=True)
    integrity.require_finite(first)
    if min(first) >= LONG_US:
        one.close()
        return min(first), sum(first)
    many = device.capture(partial(enqueue, launches))
    times = device.timed([many] * REPLAYS + [one] * SINGLE_REPLAYS, flush=True)
    integrity.require_finite(times)
    for graph in (many, one):
        graph.close()
    return first_time_us(times, launches=launches, op=op, case=case, chip=chip), sum([*first, *times])


def first_time_us(times: Sequence[float], *, launches: int, op: Op, case: Case, chip: Chip) -> float:
    """Microseconds of one launch, from REPLAYS replays of the longer graph and the others of the one-launch graph.

    The least of each counts, as others take turns on the GPU. Where the one-launch graph met them each time the slope
    says too little: no launch takes less than its share of the longer graph without a replay's own time, nor less than
    its bytes and flops take at the chip's peaks.
    """
    full, single = min(times[1:REPLAYS]), min(times[REPLAYS:])
    bounds = [(full - single) / (launches - 1), (full - REPLAY_US) / launches, LEAST_US]
    if chip.bandwidth_gbps is not None:
        bounds.append(op.bytes_moved(case) / chip.bandwidth_gbps / 1e3)
    peak = chip.peak_tflops(case.dtype)
    if peak is not None:
        bounds.append(op.flops(case) / peak / 1e6)
    return max(bounds)


def peak_share(first_us: float, *, op: Op, case: Case, chip: Chip) -> float | None:
    """The share of the chip's dense peak that this time makes; None where the peak is not known."""
    peak = chip.peak_tflops(case.dtype)
    return None if peak is None else op.flops(case) / first_us / 1e6 / peak
