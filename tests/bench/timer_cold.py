"""Coldness: read rate over footprint, the same bytes again against a rotated ring; and a copy against the roofline.

python -m tests.bench.timer_cold      (needs a GPU)
"""

from __future__ import annotations

import sys

from gate.replay.cell import Cell
from gate.replay.chips import MIB
from gate.replay.coldness import probe_all, verdict
from gate.replay.device import open_device
from gate.replay.op import Case, load_op
from gate.replay.provider import load_entrypoint
from gate.replay.timer import plan_ring, session_floor_us

SIZES = tuple(MIB << power for power in range(10))
ADD_SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 23, 1 << 26, 1 << 28)


def main() -> int:
    device = open_device("gpu")
    chip = device.facts.chip
    peak = chip.bandwidth_gbps or float("nan")
    caches = f"L2 {chip.l2_bytes / MIB:.0f} MiB, memory-side {chip.mall_bytes / MIB:.0f} MiB"
    print(f"{device.facts.gpu}: {caches}, {peak:.0f} GB/s")
    print(f"floor of an empty kernel: {session_floor_us(device):.3f} us")
    probes = probe_all(device, SIZES)
    print(f"{'MiB':>5} {'hot GB/s':>10} {'rotated GB/s':>13} {'rotated/peak':>13}")
    for probe in probes:
        rates = f"{probe.hot_gbps:>10.0f} {probe.cold_gbps:>13.0f} {probe.cold_gbps / peak:>13.2f}"
        print(f"{probe.bytes / MIB:>5.0f} {rates}")
    print(f"verdict: {verdict(probes, chip) or 'rotation is cold'}")
    print(f"{'vec_add N':>10} {'cache':>9} {'us':>9} {'GB/s':>7} {'of peak':>8}")
    for count in ADD_SIZES:
        case = Case(shape_id="add", op_type="vec_add", dtype="bf16", args={"N": count}, layout={})
        for entry in ("triton", "pytorch"):
            adapter = load_entrypoint(f"gate.replay.providers.{entry}:vec_add", "vec_add")
            cell = Cell(device=device, adapter=adapter, op=load_op("vec_add"), case=case, seed=3)
            pilot = cell.pilot()
            plan = plan_ring(
                footprint_bytes=int(pilot["footprint_bytes"]),
                estimate_us=pilot["estimate_us"],
                chip=chip,
                free_bytes=device.free_bytes(),
            )
            cell.build(plan)
            cell.capture()
            us = min(cell.visit("graph_slope").t_us for _ in range(3))
            rate = 6 * count / us / 1e3
            print(f"{count:>10} {plan.cache_state:>9} {us:>9.2f} {rate:>7.0f} {rate / peak:>8.2f}  {entry}", flush=True)
            cell.release()
            device.trim()
    return 0


if __name__ == "__main__":
    sys.exit(main())
