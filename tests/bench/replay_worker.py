"""A replay worker that also knows the other timing methods, for the comparisons of the timer benches.

python tests/bench/replay_worker.py      (started by replay_rig.py, speaks JSON lines)
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gate.replay import timer, worker


def _timed_ms(call: Any) -> tuple[float, float]:
    """A method's result in microseconds, and the milliseconds for which it kept the GPU (its own span)."""
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    value = call()
    end.record()
    torch.cuda.synchronize()
    return float(value), float(start.elapsed_time(end))


def do_bench(self: worker.Worker, message: dict[str, Any]) -> dict[str, Any]:
    import triton.testing

    cell = self.cells[message["arm"]]
    run = lambda: cell._eager(0)  # noqa: E731
    us, ms = _timed_ms(lambda: 1e3 * triton.testing.do_bench(run, return_mode="median"))
    return {"t_us": us, "gpu_ms": ms}


def do_bench_cudagraph(self: worker.Worker, message: dict[str, Any]) -> dict[str, Any]:
    import torch
    import triton.testing

    cell = self.cells[message["arm"]]
    run = lambda: cell._eager(0)  # noqa: E731
    us, ms = _timed_ms(lambda: 1e3 * triton.testing.do_bench_cudagraph(run, return_mode="median"))
    # It leaves its own stream current, the worker's launches belong on the worker's.
    torch.cuda.set_stream(self.gpu._stream)
    return {"t_us": us, "gpu_ms": ms}


def one_launch(self: worker.Worker, message: dict[str, Any]) -> dict[str, Any]:
    cell = self.cells[message["arm"]]
    us, ms = _timed_ms(lambda: timer.visit_one_launch(self.gpu, single=cell.graphs[1]).t_us)
    return {"t_us": us, "gpu_ms": ms}


def slope(self: worker.Worker, message: dict[str, Any]) -> dict[str, Any]:
    """Our visit, with the GPU's span around it."""
    cell = self.cells[message["arm"]]
    us, ms = _timed_ms(lambda: cell.visit("graph_slope").t_us)
    return {"t_us": us, "gpu_ms": ms}


def leave(self: worker.Worker, message: dict[str, Any]) -> dict[str, Any]:
    """Drops everything and returns the memory, so that many pairs of processes fit on one card."""
    import gc

    import torch

    reply = self.drop(message)
    gc.collect()
    torch.cuda.empty_cache()
    return reply


def turn(self: worker.Worker, message: dict[str, Any]) -> dict[str, Any]:
    """So many rounds from now on, in graphs that are recorded anew over the ring as it stands."""
    from tests.bench import replay_kernels

    replay_kernels.DIAL.rounds = int(message["rounds"])
    cell = self.cells[message["arm"]]
    for graph in cell.graphs:
        graph.close()
    return cell.capture()


def long_run(self: worker.Worker, message: dict[str, Any]) -> dict[str, Any]:
    """Many replays of the whole ring: what the arm takes, whatever a single visit says."""
    cell = self.cells[message["arm"]]
    assert cell.plan is not None
    full, single = cell.graphs
    times = self.gpu.timed([full] * (1 + int(message["replays"])) + [single] * 10, flush=cell.plan.flush)
    cut = 1 + int(message["replays"])
    t_us = (statistics.fmean(times[1:cut]) - statistics.fmean(times[cut:])) / (cell.plan.launches - 1)
    return {"t_us": t_us, "gpu_ms": sum(times) / 1e3}


for name, command in {
    "do_bench": do_bench,
    "do_bench_cudagraph": do_bench_cudagraph,
    "one_launch": one_launch,
    "slope": slope,
    "long_run": long_run,
    "leave": leave,
    "turn": turn,
}.items():
    worker.COMMANDS[name] = command


if __name__ == "__main__":
    sys.exit(worker.main())
