"""Bisects seeded histories of a Triton kernel on this machine's GPU with `gate bisect`, and prints a table.

    python -m tests.bench.bisect_gpu [--seeds 0-20] [--seconds 165] [--effect 0.08] [--lanes 3] [--simulate OPTIONS]

Each history has 16 commits, of which one is slower by --effect; that of seed 1 has none. It ends itself
after --seconds, with what is finished. Worker starts dominate the wall time, so that fresh workers are started many
at once; histories overlap in what needs no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import yaml

from gate import store
from gate.commands.bisect import begun, bisect, options_of
from gate.commands.bisect_asked import Gpu
from gate.model.problem import GateError
from gate.model.text import counted
from gate.replay.machine import lock_gpu, visible_gpus
from tests.bench.bisect_history import ARGS, ENTRYPOINT, History, calibrated, make
from tests.factory import make_shape

ROOT = Path(__file__).resolve().parents[2]


# The history without a slow commit.
CLEAN = 1


def seeds_of(text: str) -> list[int]:
    """The numbers in `0-3,7`."""
    ends = [part.partition("-") for part in text.split(",")]
    return [seed for first, _, last in ends for seed in range(int(first), int(last or first) + 1)]


class Run:
    """The histories in work, and the lines about those that are finished."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.started = time.monotonic()
        self.sim = options.simulate is not None
        self.shape = make_shape(dtype="bf16", args={"M": 4, "N": 64} if self.sim else ARGS)
        self.waiting = [(seed, seed != CLEAN) for seed in seeds_of(options.seeds)]
        self.gpu: Gpu | None = None
        self.lock = threading.Lock()
        self.lines: list[dict[str, Any]] = []
        self.stop = False
        store.write_jsonl(folder / "shape_ledger.jsonl", [self.shape])
        entry = {"enabled": True, "entrypoint": ENTRYPOINT, "provider": "triton"}
        matrix = {"kernel": "rmsnorm", "op_type": "rmsnorm", "dtype": "bf16", "candidate_provider": "triton"}
        store.write_text(folder / "baseline_matrix.yaml", yaml.safe_dump({**matrix, "providers": {"triton": entry}}))

    def say(self, text: str) -> None:
        with self.lock:
            print(f"{time.monotonic() - self.started:6.1f} s  {text}", flush=True)

    def arguments(self, seed: int, history: History) -> list[str]:
        """The command line of `gate bisect` for one history."""
        ledger, matrix = self.folder / "shape_ledger.jsonl", self.folder / "baseline_matrix.yaml"
        files = ["--ledger", str(ledger), "--matrix", str(matrix)]
        ends = ["--good", history.commits[0], "--bad", history.commits[-1], "--repo", str(history.folder)]
        what = ["--op", "rmsnorm", "--shape", self.shape.shape_id, "--budget-us", str(self.options.budget_us)]
        more = ["--out", str(self.folder / f"out{seed}"), "--seed", str(seed)]
        if self.sim:
            more += ["--simulate", self.options.simulate, "--arm", f"path={{tree}},path={ROOT}"]
            more += ["--op-from", "tests.replay.sim_kernels:OP"]
        return [*ends, *files, *what, *more]

    def one(self, seed: int, regression: bool, chains: tuple[float, float], gpu: Gpu) -> None:
        history = make(self.folder / f"repo{seed}", seed=seed, chains=chains, regression=regression, simulated=self.sim)
        began = time.monotonic()
        try:
            with begun(options_of(self.arguments(seed, history))) as bisection:
                found = bisect(bisection, gpu)
        except GateError as error:
            self.say(f"history {seed:2}: stopped: {error.problems[0]}")
            self.lines.append({"right": False, "regression": regression, "gpu_s": 0.0, "pairs": 0})
            return
        exact = found.suspects == (history.slow,)
        # The commit that does not import may lie beside the slow one: then nobody can tell the two apart.
        right = found.word == "found" and history.slow in found.suspects and len(found.suspects) <= 2
        right = right if regression else found.word == "no_regression"
        line = {
            "right": right,
            "exact": exact,
            "regression": regression,
            "word": found.word,
            "gpu_s": found.gpu_s,
            "pairs": found.process_pairs,
            "wall_s": time.monotonic() - began,
            "slowdown": found.slowdown or 0.0,
        }
        self.lines.append(line)
        free = sum(step.how == "code" for step in found.steps)
        names = ",".join(map(str, found.suspects)) or "-"
        truth = f"slow {history.slow if regression else '-':>2}, broken {history.broken:2}"
        cost = (
            f"{counted(found.process_pairs, 'pair')}, {free} by code, {found.gpu_s:.2f} GPU s, {line['wall_s']:.1f} s"
        )
        verdict = "right" if right else "WRONG"
        self.say(
            f"history {seed:2}: {truth}: {found.word} {names} of {len(bisection.source.versions)}: {verdict}; "
            f"bad/good {found.slowdown or 0.0:.4f}; {cost}"
        )

    def lane(self, chains: tuple[float, float], gpu: Gpu) -> None:
        while not self.stop:
            with self.lock:
                if not self.waiting:
                    return
                seed, regression = self.waiting.pop(0)
            self.one(seed, regression, chains, gpu)

    def table(self) -> None:
        """The totals of what is finished."""
        slow = [line for line in self.lines if line["regression"]]
        clean = [line for line in self.lines if not line["regression"]]
        right = sum(line["right"] for line in slow)
        exact = sum(line.get("exact", False) for line in slow)
        gpu_s = sum(line["gpu_s"] for line in self.lines)
        pairs = sum(line["pairs"] for line in self.lines)
        print(f"right in {right} of {len(slow)} histories with a slow commit ({exact} down to the one commit)")
        print(f"without a slow commit: {sum(line['right'] for line in clean)} of {len(clean)} say no regression")
        if self.lines:
            print(
                f"{gpu_s:.2f} GPU s in all, {gpu_s / len(self.lines):.2f} a history; {counted(pairs, 'process pair')}"
            )
        if self.gpu is not None and self.gpu.spares is not None:
            spares, held_s = self.gpu.spares, self.gpu.token.held_s
            print(f"{spares.started} workers started in {spares.seconds:.1f} s; GPU held {held_s:.1f} s")
            spent = ", ".join(f"{name} {took / max(pairs, 1):.2f}" for name, took in self.gpu.spent_s.most_common())
            print(f"seconds a pair: {spent}")
        print(f"{len(self.waiting)} histories not begun; {time.monotonic() - self.started:.1f} s", flush=True)


def wait_for_gpu(seconds: float) -> None:
    """Returns when nobody else measures on the GPU, or after `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.close(lock_gpu(visible_gpus("1")[0]))
            return
        except GateError as error:
            print(f"waiting: {error.problems[0]}", flush=True)
            time.sleep(5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-20", help="such as 0-3,7")
    parser.add_argument("--seconds", type=float, default=165.0)
    parser.add_argument("--effect", type=float, default=0.08)
    parser.add_argument("--lanes", type=int, default=3)
    parser.add_argument("--spares", type=int, default=24)
    parser.add_argument("--budget-us", type=float, default=1000.0)
    parser.add_argument("--simulate", metavar="OPTIONS")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bisect-gpu-"))
    if options.simulate is None:
        wait_for_gpu(options.seconds)
    run = Run(options, folder)

    def end() -> None:
        run.stop = True
        run.say("time is up")
        run.table()
        # The workers die with this process (they ask Linux to).
        os._exit(0)

    timer = threading.Timer(options.seconds, end)
    timer.daemon = True
    timer.start()
    if run.sim:
        chains: tuple[float, float] = (1.0, 1.0 + options.effect)
    else:
        chains = calibrated(folder / "calibration", python=sys.executable, target_us=10.0, effect=options.effect)
    run.say(f"chains of {chains[0]} and {chains[1]} steps")
    # What the bisections say of their steps would bury the table.
    with (
        Gpu({"simulate": options.simulate, "gpus": "1"}, spares=options.spares) as gpu,
        contextlib.redirect_stderr(io.StringIO()),
    ):
        run.gpu = gpu
        # The first history takes the GPU and starts the workers.
        run.one(*run.waiting.pop(0), chains, gpu)
        lanes = [threading.Thread(target=run.lane, args=(chains, gpu)) for _ in range(options.lanes)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
    timer.cancel()
    run.table()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
