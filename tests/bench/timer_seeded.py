"""Seeded slowdowns: extra dependent work in the kernel, its true ratio from a long run, and what each method reads.

    python -m tests.bench.timer_seeded [--rows 8 512 ...] [--slower 0.02 0.05 ...] [--pairs 5]      (needs a GPU)

The truth is measured under the conditions of the reading, by others: --pairs process pairs with the reading's very ring
(copies, launches, flush, place in memory) and graphs of their own, five times its visits or more, ABBA. Its standard
error is that of the pairs' means; the reading's is that of its four blocks. Beside them stands the ratio in graphs of
10 ms, whose ring is another: more copies, and no flush where the reading's small state needs one.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gate.model.text import counted
from gate.replay.looks import Warming
from gate.replay.sharing import SharedMemory
from tests.bench.dial_search import Search
from tests.bench.replay_rig import Side, abba, block_ratios, mean_and_error, planned, reach, start, together

# About 1.8, 3.7, 6.5, 18 and 100 us on an H200.
ROWS = (8, 512, 1024, 4096, 24576)
SLOWER = (0.02, 0.03, 0.05, 0.10, 0.50)
COLUMNS = 4096
BLOCKS = 4
PAIRS = 5
BUDGET_US = 2000.0
LONG_REPLAYS, LONG_BLOCKS, LONG_BUDGET_US = 3, 3, 10_000.0
QUICK_REPLAYS = 4
LIMIT_PP = 0.3


@dataclass(frozen=True, slots=True)
class Pair:
    """Two processes with one kernel: head's dial is turned, base's stays at 0."""

    head: Side
    base: Side

    @property
    def sides(self) -> list[Side]:
        return [self.head, self.base]


@dataclass(frozen=True, slots=True)
class Bench:
    """The pair that reads, those that measure the truth in the same memory, and the one with the long graphs."""

    reading: Pair
    truth: list[Pair]
    long: Pair

    @property
    def near(self) -> list[Side]:
        return [side for pair in (self.reading, *self.truth) for side in pair.sides]

    @property
    def every(self) -> list[Side]:
        return [*self.near, *self.long.sides]


def bench(pairs: int) -> Bench:
    """All processes, started together."""
    names = ["reading", *(f"truth{number}" for number in range(pairs)), "long"]
    sides = start([f"seeded-{name}-{side}" for name in names for side in ("head", "base")])
    first, *middle, last = [Pair(*sides[at : at + 2]) for at in range(0, len(sides), 2)]
    return Bench(reading=first, truth=middle, long=last)


def prepare(all_: Bench, rows: int, near: SharedMemory, far: SharedMemory) -> dict[str, Any]:
    """Every side has its ring of the size; the plan of the reading and the truth is returned."""
    together(all_.every, lambda side: side.ask("leave"))
    together(all_.every, lambda side: side.open({"M": rows, "N": COLUMNS}))
    pilots = [side.ask("pilot") for side in all_.reading.sides]
    chip = all_.reading.head.chip
    plan, long_plan = (planned(chip, pilots, *more) for more in ((BUDGET_US, near), (LONG_BUDGET_US, far)))
    # Equal rings at one place: the last to fill them writes what the first wrote.
    together(all_.near, lambda side: side.ready(plan, near))
    together(all_.long.sides, lambda side: side.ready(long_plan, far))
    print(f"M={rows}: {ring(plan)}; 10 ms: {ring(long_plan)}", flush=True)
    return plan


def ring(plan: dict[str, Any]) -> str:
    copies, launches = counted(plan["copies"], "copy", "copies"), counted(plan["launches"], "launch", "launches")
    return f"{copies}, {launches}, flush {plan['flush']}"


def calibrate(quick_us: Callable[[int], float], targets: Sequence[float]) -> list[int]:
    """For each target the dial whose slowdown comes near it."""
    base = quick_us(0)
    search = Search(lambda rounds: quick_us(rounds) / base - 1)
    search.reach(max(targets), first=4, factor=2, limit=1 << 20)
    return [search.near(target, tries=8) for target in targets]


def turned(side: Side, rounds: int) -> float:
    """A first time of the kernel with so many rounds."""
    side.ask("turn", rounds=rounds)
    return float(side.ask("long_run", replays=QUICK_REPLAYS)["t_us"])


def warm(pair: Pair, do: str, **more: Any) -> None:
    """As the engine does: until times agree, and a kernel that loads the whole GPU has done so for a while."""
    warming = Warming(heavy=True)
    while not warming.settled:
        replies = {side.link.name: side.ask(do, **more) for side in pair.sides}
        warming.saw({name: (float(reply["t_us"]), 1e3 * float(reply["gpu_ms"])) for name, reply in replies.items()})


def visited(
    pair: Pair, blocks: int, do: str, rng: random.Random, **more: Any
) -> tuple[list[float], list[float], list[float]]:
    """The ratios of so many blocks, after warming up, and the times of head and base."""
    flips = [rng.random() < 0.5 for _ in range(blocks)]
    warm(pair, do, **more)
    ours, theirs, _ = abba(pair.head, pair.base, blocks, do, flips, **more)
    return block_ratios(ours, theirs), ours, theirs


def measure(all_: Bench, rounds: int, rng: random.Random) -> dict[str, tuple[float, float]]:
    """The ratio and its standard error by method; `base us` is a time, and what has one value has no error."""
    heads = {id(pair.head) for pair in (all_.reading, *all_.truth, all_.long)}
    # Base's graphs are recorded anew too, so that both sides' are equally old.
    together(all_.every, lambda side: side.ask("turn", rounds=rounds if id(side) in heads else 0))
    ratios, _, theirs = visited(all_.reading, BLOCKS, "slope", rng)
    read = {"slope": mean_and_error(ratios), "base us": mean_and_error(theirs)}
    means = [mean_and_error(visited(pair, BLOCKS, "slope", rng)[0])[0] for pair in all_.truth]
    read["true"] = mean_and_error(means)
    read["10 ms"] = mean_and_error(visited(all_.long, LONG_BLOCKS, "long_run", rng, replays=LONG_REPLAYS)[0])
    read["one_launch"] = mean_and_error(visited(all_.reading, BLOCKS, "one_launch", rng)[0])
    for method in ("do_bench", "do_bench_cudagraph"):
        ours, base = (side.ask(method)["t_us"] for side in all_.reading.sides)
        read[method] = (ours / base, float("nan"))
    return read


HEADS = (
    ("base us", 8), ("extra", 6), ("true %", 7), ("+-", 6), ("ours %", 7), ("+-", 6), ("off, pp", 8), ("10 ms %", 8),
    ("+-", 6), ("one_launch %", 13), ("do_bench %", 11), ("do_bench_cudagraph %", 21),
)  # fmt: skip


def line(read: dict[str, tuple[float, float]], rounds: int) -> str:
    """One case under HEADS."""
    cells = [f"{read['base us'][0]:.2f}", str(rounds)]
    for name in ("true", "slope"):
        cells += [f"{100 * (read[name][0] - 1):.2f}", f"{100 * read[name][1]:.3f}"]
    cells += [f"{off_pp(read):+.2f}", f"{100 * (read['10 ms'][0] - 1):.2f}", f"{100 * read['10 ms'][1]:.3f}"]
    cells += [f"{100 * (read[name][0] - 1):.2f}" for name in ("one_launch", "do_bench", "do_bench_cudagraph")]
    return " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, HEADS, strict=True))


def off_pp(read: dict[str, tuple[float, float]]) -> float:
    """By how many percentage points the reading is off the truth."""
    return 100 * (read["slope"][0] - read["true"][0])


def tell(all_reads: Sequence[dict[str, tuple[float, float]]]) -> None:
    """What all cases say together."""
    offs = [off_pp(read) for read in all_reads]
    mean, error = mean_and_error(offs)
    print(f"ours off: at most {max(map(abs, offs)):.2f} percentage points, on average {mean:+.3f} +- {error:.3f};")
    within = sum(abs(off) <= LIMIT_PP for off in offs)
    worst = max(100 * read["true"][1] for read in all_reads)
    cases = counted(len(offs), "case")
    print(f"{within} of {cases} within {LIMIT_PP}; the truth's standard error is at most {worst:.3f}")
    apart, of_it = mean_and_error(100 * (read["10 ms"][0] - read["true"][0]) for read in all_reads)
    print(f"10 ms graphs less the truth, on average: {apart:+.3f} +- {of_it:.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=list(ROWS))
    parser.add_argument("--slower", type=float, nargs="*", default=list(SLOWER))
    parser.add_argument("--pairs", type=int, default=PAIRS, help="process pairs for the truth, 2 or more")
    options = parser.parse_args()
    all_, near, far = bench(options.pairs), SharedMemory(1), SharedMemory(1)
    # One after another: each measures how fast it reads the memory.
    for sides, memory in ((all_.near, near), (all_.long.sides, far)):
        for side in sides:
            reach(side, memory)
    print(f"{len(all_.every)} workers ready")
    print(" ".join(f"{name:>{width}}" for name, width in HEADS), flush=True)
    rng, reads = random.Random(2), []
    for rows in options.rows:
        prepare(all_, rows, near, far)
        for rounds in calibrate(lambda value: turned(all_.reading.head, value), options.slower):
            reads.append(measure(all_, rounds, rng))
            print(line(reads[-1], rounds), flush=True)
    tell(reads)
    for side in all_.every:
        side.link.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
