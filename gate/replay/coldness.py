"""Whether a ring is as cold as its label says: reads of footprints of several sizes, hot and rotated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gate.replay.chips import MIB, Chip
from gate.replay.device import Device
from gate.replay.timer import SINGLE_REPLAYS, slope_us

PROBE_SIZES = (4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Read rates at one footprint, GB/s: the same bytes again (`hot`), and rotated through a cold ring."""

    bytes: int
    hot_gbps: float
    cold_gbps: float


def probe_all(device: Device, sizes: Sequence[int] = PROBE_SIZES, laps: int = 1) -> tuple[Probe, ...]:
    """Reads each footprint hot and rotated."""
    return tuple(_probe(device, size, laps) for size in sizes)


def _probe(device: Device, size: int, laps: int) -> Probe:
    copies = math.ceil(device.facts.chip.evict_bytes / size) + 1
    ring = device.stack(copies, (size // 4,), "fp32")
    device.normal(ring, size)
    launches = copies * max(laps, math.ceil(16 / copies))
    rates = []
    for span in (1, copies):

        def enqueue(span: int = span) -> None:
            for index in range(launches):
                device.read(ring[index % span])

        device.run(lambda: device.read(ring[0]))
        full, single = device.capture(enqueue), device.capture(lambda: device.read(ring[0]))
        times = device.timed([full] * 4 + [single] * SINGLE_REPLAYS, flush=False)
        t_us = slope_us(full_us=times[1:4], single_us=times[4:], launches=launches)
        rates.append(size / t_us / 1e3)
        full.close()
        single.close()
    return Probe(bytes=size, hot_gbps=rates[0], cold_gbps=rates[1])


def verdict(probes: Sequence[Probe], chip: Chip) -> str | None:
    """Why the rotated ring is not proven cold, or None: no rotated rate may beat memory, and a footprint well inside
    the caches must read faster hot than rotated, or the probe shows nothing."""
    peak = chip.bandwidth_gbps
    for probe in probes:
        if peak is not None and probe.cold_gbps > 1.02 * peak:
            return f"{probe.bytes} rotated bytes read at {probe.cold_gbps:.0f} GB/s, above memory's {peak:.0f}"
    inside = [probe for probe in probes if probe.bytes <= chip.cache_bytes // 2]
    if not inside:
        return "no probe size fits in the caches"
    if all(probe.hot_gbps < 1.15 * probe.cold_gbps for probe in inside):
        return "hot reads are no faster than rotated ones at any size that fits in the caches"
    return None
