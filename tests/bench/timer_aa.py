"""A/A: one Triton rmsnorm in two worker processes; how far head/base strays from 1, per method and size.

    python -m tests.bench.timer_aa [--sessions 10] [--budget-us 2000] [--own]      (needs a GPU)

A session is a pair of processes of its own with fresh captures, whose rings lie at one place of device memory; with
--own, or where the ring does not fit there, which its line says, each process has memory of its own. Ours and the
one-launch graph get 4 ABBA blocks; do_bench and do_bench_cudagraph run once per side with their defaults.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from typing import Any

from gate.model.text import counted
from gate.replay.sharing import SharedMemory
from tests.bench.replay_rig import abba, prepare_pair, start

ROWS = (8, 256, 1024, 2048, 8192, 32768, 98304)
COLUMNS = 4096
BLOCKS = 4
METHODS = ("slope", "one_launch", "do_bench", "do_bench_cudagraph")


def ratio(head: list[float], base: list[float]) -> float:
    return statistics.fmean(head) / statistics.fmean(base)


def session(
    head: Any,
    base: Any,
    rows: int,
    *,
    budget_us: float,
    methods: list[str],
    rng: random.Random,
    memory: SharedMemory | None,
) -> dict[str, Any]:
    args = {"M": rows, "N": COLUMNS}
    plan, own = prepare_pair(head, base, [args, args], budget_us, memory=memory)
    found: dict[str, Any] = {"plan": plan, "own": own}
    abba(head, base, 1, "slope", [True])
    for method in methods:
        flips = [rng.random() < 0.5 for _ in range(BLOCKS)]
        if method in ("slope", "one_launch"):
            ours, theirs, spent = abba(head, base, BLOCKS, method, flips)
        else:
            replies = [side.ask(method) for side in ((head, base) if flips[0] else (base, head))]
            pair = [reply["t_us"] for reply in replies]
            ours, theirs = ([pair[0]], [pair[1]]) if flips[0] else ([pair[1]], [pair[0]])
            spent = sum(reply["gpu_ms"] for reply in replies)
        found[method] = (ratio(ours, theirs), statistics.median(ours), spent)
    for side in (head, base):
        side.ask("leave")
    return found


def told(plan: dict[str, Any], own: str, *, shared: bool) -> str:
    """The ring in words, and where it lies; `own` is why not in shared memory."""
    place = f"memory of their own: {own}" if own else "shared memory" if shared else "memory of their own, as asked"
    copies, launches = counted(plan["copies"], "copy", "copies"), counted(plan["launches"], "launch", "launches")
    return f"ring {copies}, {launches}, flush {plan['flush']}, in {place}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--budget-us", type=float, default=2000.0)
    parser.add_argument("--rows", type=int, nargs="*", default=list(ROWS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--own", action="store_true")
    options = parser.parse_args()
    memory = None if options.own else SharedMemory(1)
    began = time.perf_counter()
    sides = start([f"{name}{index}" for index in range(options.sessions) for name in ("head", "base")])
    print(f"{len(sides)} workers ready after {time.perf_counter() - began:.1f} s")
    heads = f"{'min ratio':>10} {'max ratio':>10} {'worst %':>8} {'sd %':>7} {'GPU ms/pair':>12}"
    print(f"{'M':>6} {'method':>18} {'us':>9} {heads}")
    rng = random.Random(1)
    for rows in options.rows:
        found = [
            session(
                sides[2 * index],
                sides[2 * index + 1],
                rows,
                budget_us=options.budget_us,
                methods=options.methods,
                rng=rng,
                memory=memory,
            )
            for index in range(options.sessions)
        ]
        for method in options.methods:
            ratios = [item[method][0] for item in found]
            worst = 100 * max(abs(value - 1) for value in ratios)
            spread = 100 * statistics.stdev(ratios) if len(ratios) > 1 else 0.0
            us = statistics.median(item[method][1] for item in found)
            spent = statistics.median(item[method][2] for item in found)
            print(
                f"{rows:>6} {method:>18} {us:>9.2f} {min(ratios):>10.5f} {max(ratios):>10.5f} {worst:>8.3f} "
                f"{spread:>7.3f} {spent:>12.1f}",
                flush=True,
            )
            print("       " + " ".join(f"{value:.4f}" for value in ratios), flush=True)
        plan = found[0]["plan"]
        print(f"       {told(plan, found[0]['own'], shared=memory is not None)}", flush=True)
    for side in sides:
        side.link.close()
    print(f"{time.perf_counter() - began:.1f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
