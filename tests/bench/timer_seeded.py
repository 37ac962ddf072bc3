"""Seeded slowdowns: extra dependent work in the kernel, its true ratio from a long run, and what each method reads.

python -m tests.bench.timer_seeded [--rows 8 1024 ...] [--slower 0.02 0.05 ...]      (needs a GPU)
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from typing import Any

from gate.replay.sharing import SharedMemory
from tests.bench.replay_rig import Side, abba, prepare_pair, start

# About 1.8, 3.7, 6.5, 18 and 100 us on an H200.
ROWS = (8, 512, 1024, 4096, 24576)
SLOWER = (0.02, 0.03, 0.05, 0.10, 0.50)
COLUMNS = 4096
BLOCKS = 4
TRUTH_REPLAYS, TRUTH_BLOCKS, TRUTH_BUDGET_US = 3, 6, 10_000.0


def quick_us(side: Side, rows: int, extra: int) -> float:
    side.ask("leave")
    pilot = side.open({"M": rows, "N": COLUMNS, "extra": extra})
    side.ready(side.plan([pilot], 1000.0))
    return float(side.ask("long_run", replays=2)["t_us"])


def calibrate(side: Side, rows: int, targets: tuple[float, ...]) -> list[int]:
    """For each target the dial whose slowdown comes near it: by bracketing, since memory-bound kernels hide work."""
    base = quick_us(side, rows, 0)
    seen = {0: 0.0}
    extra = 4
    while max(seen.values()) < max(targets) and extra < 1 << 20:
        seen[extra] = quick_us(side, rows, extra) / base - 1
        extra *= 2
    found = []
    for target in targets:
        low = max((value for value, slower in seen.items() if slower <= target), default=0)
        high = min((value for value, slower in seen.items() if slower > target and value > low), default=low + 1)
        for _ in range(8):
            middle = (low + high) // 2
            if middle in (low, high):
                break
            seen[middle] = quick_us(side, rows, middle) / base - 1
            low, high = (middle, high) if seen[middle] <= target else (low, middle)
        found.append(min(seen, key=lambda value: abs(seen[value] - target)))
    return found


def measure(
    head: Side, base: Side, rows: int, extra: int, *, rng: random.Random, memory: SharedMemory
) -> dict[str, float]:
    args: list[dict[str, Any]] = [{"M": rows, "N": COLUMNS, "extra": extra}, {"M": rows, "N": COLUMNS, "extra": 0}]
    flips = [rng.random() < 0.5 for _ in range(8)]
    read: dict[str, float] = {}
    prepare_pair(head, base, args, TRUTH_BUDGET_US, memory=memory)
    abba(head, base, 1, "slope", [True])
    ours, theirs, _ = abba(head, base, TRUTH_BLOCKS, "long_run", flips, replays=TRUTH_REPLAYS)
    read["base us"] = statistics.fmean(theirs)
    read["true"] = statistics.fmean(ours) / statistics.fmean(theirs)
    prepare_pair(head, base, args, 2000.0, memory=memory)
    abba(head, base, 1, "slope", [True])
    for method in ("slope", "one_launch"):
        ours, theirs, _ = abba(head, base, BLOCKS, method, flips)
        read[method] = statistics.fmean(ours) / statistics.fmean(theirs)
    for method in ("do_bench", "do_bench_cudagraph"):
        read[method] = head.ask(method)["t_us"] / base.ask(method)["t_us"]
    return read


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=list(ROWS))
    parser.add_argument("--slower", type=float, nargs="*", default=list(SLOWER))
    options = parser.parse_args()
    head, base = start(["seeded-head", "seeded-base"])
    names = ("true", "slope", "one_launch", "do_bench", "do_bench_cudagraph")
    print(f"{'base us':>8} {'extra':>6} " + " ".join(f"{name + ' %':>20}" for name in names) + f" {'ours off, pp':>13}")
    rng, errors, memory = random.Random(2), [], SharedMemory(1)
    for rows in options.rows:
        for extra in calibrate(head, rows, tuple(options.slower)):
            read = measure(head, base, rows, extra, rng=rng, memory=memory)
            off = 100 * (read["slope"] - read["true"])
            errors.append(abs(off))
            cells = " ".join(f"{100 * (read[name] - 1):>20.2f}" for name in names)
            print(f"{read['base us']:>8.2f} {extra:>6} {cells} {off:>13.2f}", flush=True)
    print(f"largest error of ours: {max(errors):.2f} percentage points over {len(errors)} cases")
    for side in (head, base):
        side.link.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
