"""What the reports cost, from 1,500 rows to a million: seconds, size and peak memory of each; prints a table.

Each size runs in a process of its own: one decision with one row in a thousand slower, and up to 250,000 shapes the
result rows of four providers on both sides (a million rows each).

    python -m tests.bench.render_million [--sizes 1500,20000,250000,1000000]
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from gate.model.outcome import Outcome, Results
from gate.model.text import counted

MOST_WITH_RESULTS = 250_000
PROVIDERS = {"flydsl": 1.0, "aiter": 1.02, "triton": 1.1, "pytorch": 2.0}


def results(count: int, *, seed: int) -> Results:
    """`count` shapes of rmsnorm, a row of each provider for each."""
    rng = random.Random(seed)
    rows = []
    for index in range(count):
        floor_us = 3.0 + index * 300 / count
        for name, factor in PROVIDERS.items():
            median = floor_us * factor * (1 + rng.gauss(0, 0.02))
            rows.append(
                Outcome(
                    run_id="bench",
                    shape_id=f"sha1:{index:016x}",
                    provider=name,
                    provider_detail="bench",
                    candidate_commit="0" * 8,
                    gpu="AMD Instinct MI350X",
                    arch="gfx950",
                    rocm_version="7.2.0",
                    correct=True,
                    warmup_iters=1,
                    repeat_iters=1,
                    benchmark_status="ok",
                    median_us=median,
                    eager_median_us=median + 5,
                    p10_us=median * 0.98,
                    p90_us=median * (1.03 + abs(rng.gauss(0, 0.05))),
                    timing_method="graph_slope",
                    cache_state="cold_hbm",
                    effective_gbps=4000.0 * rng.random() + 1,
                    effective_tflops=4.0 * rng.random() + 0.001,
                )
            )
    return Results(outcomes=tuple(rows))


def timed(name: str, make: Callable[[], str]) -> str:
    """Runs one step and prints what it took."""
    start, began = time.perf_counter(), time.process_time()
    text = make()
    wall, cpu = time.perf_counter() - start, time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{name:<24} {cpu:8.2f} s cpu {wall:8.2f} s {len(text.encode()) / 1e6:8.2f} MB {peak:8.2f} GB", flush=True)
    return text


def one(count: int) -> None:
    """Every report of `count` rows."""
    from gate import render
    from gate.analysis.rollup import rollup
    from gate.model.decision import ControlMovement
    from gate.render import html, summaries
    from tests.render.examples import BLOCKED, decision, row, slower

    rng = random.Random(7)
    rows = [
        slower(index, 1.1 + rng.random())
        if index % 1000 == 0
        else row(index, ratio=1 + rng.gauss(0, 0.005), speedup_vs_best=rng.lognormvariate(0, 0.2))
        for index in range(count)
    ]
    controls = (ControlMovement(provider="aiter", n=count, ratio=1.0, moved=False),)
    judged = decision(rows, **BLOCKED, controls=controls)
    measured = count if count <= MOST_WITH_RESULTS else 0
    head, base = results(measured, seed=1), results(measured, seed=2)
    print(f"{counted(count, 'row')}, {counted(len(head.outcomes), 'result row')} a side")
    timed("comment.md", lambda: render.comment(judged))
    timed("step_summary.md", lambda: render.step_summary(judged))
    kept = []
    timed("roll-up", lambda: str(kept.append(rollup(judged, head=head, base=base, matrices={}))))
    timed("benchmark_summary.md", lambda: summaries.benchmark_summary(judged, kept[0]))
    timed("coverage_matrix.md", lambda: summaries.coverage_matrix(judged, kept[0]))
    timed("weighted_summary.md", lambda: summaries.weighted_summary(judged, kept[0]))
    timed("report.html", lambda: html.page(judged, kept[0], html.pictures(judged, kept[0], ())))


def main() -> None:
    """Each size in a process of its own, so that the peak is its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="1500,20000,250000,1000000")
    parser.add_argument("--one", type=int)
    chosen = parser.parse_args()
    if chosen.one:
        one(chosen.one)
        return
    for size in chosen.sizes.split(","):
        subprocess.run([sys.executable, "-m", "tests.bench.render_million", "--one", size], check=True)


if __name__ == "__main__":
    main()
