"""Kills workers and coordinators of `gate replay` with signal 9 at random moments and compares the outcome.

    python -m tests.bench.replay_kills [--kills 50] [--shapes 12] [--lanes 1] [--gpu] [--seed 1]

On the simulated GPU the rows must be identical to those of an undisturbed run; on a real one (--gpu) every row must be
there with the same status.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gate.model.text import counted
from tests.replay import rig

# The share of kills that wait until there are workers; the others may hit a coordinator that is still starting.
AMID_WORK = 0.75

Shown = Callable[[Any], list[Any]]


def statuses(found: Any) -> list[Any]:
    return [(row.shape_id, row.provider, row.benchmark_status) for row in found]


def undisturbed(folder: Path, arguments: list[str]) -> float:
    """Runs once in peace; seconds it took."""
    began = time.monotonic()
    process = launch(folder, arguments)
    _, stderr = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(stderr)
    return time.monotonic() - began


def launch(folder: Path, arguments: list[str]) -> Any:
    command = [sys.executable, "-m", "gate", *arguments, "--out", str(folder / "out")]
    return rig.subprocess.Popen(command, cwd=rig.ROOT, text=True, stdout=-1, stderr=-1)


def disturbed(folder: Path, arguments: list[str], *, kills: int, span_s: float, rng: random.Random) -> Counter[str]:
    """Runs with up to `kills` kills, resuming after each one of the coordinator."""
    done: Counter[str] = Counter()
    resume: list[str] = []
    while True:
        process = launch(folder, [*arguments, *resume])
        rig.harass(process, done, most=kills, pause=partial(amid, span_s=span_s, rng=rng), workers=0.6, rng=rng)
        _, stderr = process.communicate()
        if process.returncode == 0:
            return done
        if process.returncode != -9:
            raise RuntimeError(f"exit {process.returncode}: {stderr}")
        journal = folder / "out" / "journal.jsonl"
        resume = ["--resume"] if journal.exists() and journal.stat().st_size else []


def amid(process: Any, *, span_s: float, rng: random.Random) -> None:
    """Waits a random time, most often counted from when the coordinator has workers."""
    if rng.random() < AMID_WORK:
        while process.poll() is None and not rig.workers_of(process.pid):
            time.sleep(0.02)
    time.sleep(rng.uniform(0.02, span_s / 3))


def prepare(folder: Path, *, shapes: int, gpu: bool, lanes: int) -> list[str]:
    folder.mkdir(parents=True)
    if gpu:
        fixed = ["--op", "rmsnorm", "--candidate", "triton", "--providers", "pytorch", "--lanes", str(lanes)]
        return ["replay", *fixed, "--base", "", "--limit", str(shapes), "--seed", "7", "--blocks", "4"]
    rig.write_inputs(folder, ledger=rig.shapes(shapes))
    return [*_without_out(rig.arguments(folder, "--lanes", str(lanes))), "--base", f"path={rig.ROOT}"]


def _without_out(arguments: list[str]) -> list[str]:
    place = arguments.index("--out")
    return arguments[:place] + arguments[place + 2 :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peace:
    """An undisturbed run: its folder, how long it took, and what was measured."""

    folder: Path
    span_s: float
    shapes: int
    gpu: bool
    lanes: int


def run_in_peace(folder: Path, *, shapes: int, gpu: bool, lanes: int = 1) -> Peace:
    span_s = undisturbed(folder, prepare(folder, shapes=shapes, gpu=gpu, lanes=lanes))
    return Peace(folder=folder, span_s=span_s, shapes=shapes, gpu=gpu, lanes=lanes)


def trial(war: Path, peace: Peace, *, kills: int, rng: random.Random) -> tuple[Counter[str], bool, int]:
    """A disturbed run beside the undisturbed one: the kills made, whether the rows agree, and how many are lost."""
    shown: Shown = statuses if peace.gpu else rig.comparable
    arguments = prepare(war, shapes=peace.shapes, gpu=peace.gpu, lanes=peace.lanes)
    done = disturbed(war, arguments, kills=kills, span_s=peace.span_s, rng=rng)
    same, lost = True, 0
    for side in ("head", "base"):
        want, got = rig.rows(peace.folder, side), rig.rows(war, side)
        lost += len({(r.shape_id, r.provider) for r in want} - {(r.shape_id, r.provider) for r in got})
        same = same and shown(want) == shown(got)
    return done, same, lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--per-run", type=int, default=5)
    parser.add_argument("--shapes", type=int, default=12)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, total, bad, lost_rows, run = random.Random(options.seed), Counter[str](), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        peace = run_in_peace(Path(folder) / "peace", shapes=options.shapes, gpu=options.gpu, lanes=options.lanes)
        print(f"undisturbed: {peace.span_s:.1f} s", flush=True)
        while sum(total.values()) < options.kills:
            left = min(options.per_run, options.kills - sum(total.values()))
            done, same, lost = trial(Path(folder) / str(run), peace, kills=left, rng=rng)
            run += 1
            total += done
            bad += not same
            lost_rows += lost
            print(f"run {run}: {dict(done)}, rows lost {lost}, identical {same}", flush=True)
    kills, lost_of_all = counted(sum(total.values()), "kill"), counted(lost_rows, "row")
    print(f"{kills} ({dict(total)}) in {counted(run, 'run')}: {lost_of_all} lost, runs that differ: {bad}")
    return 1 if bad or lost_rows else 0


if __name__ == "__main__":
    sys.exit(main())
