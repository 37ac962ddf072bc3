"""Kills workers and coordinators of a whole `gate run --replay` with signal 9 at random moments, and resumes it.

    python -m tests.bench.run_kills [--kills 200] [--per-run 8] [--lanes 1] [--seed 1]      (on the simulated GPU)

The decision must be the undisturbed one, byte for byte; no row may be lost, and no verdict may stand before the last.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gate import store
from gate.model.text import counted
from tests.commands import timed_rig
from tests.replay import rig

TEXTS = ("decision.json", "status.json", "comment.md", "regressions.jsonl", "step_summary.md")
FINAL = (0, 1)


def launch(arguments: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gate", *arguments]
    return subprocess.Popen(command, cwd=rig.ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def prepare(folder: Path) -> Path:
    """Two ops; the odd shapes are 4% slower in head, the others equal: the run has looks, suspects and clean rows."""
    rows = {
        op: [shape for number in range(3) for shape in timed_rig.shapes(op, 1, us=8.0 + number, steady=number % 2)]
        for op in ("rmsnorm", "softmax")
    }
    return timed_rig.write_ledgers(folder / "ledgers", rows)


def arguments(ledgers: Path, out: Path, lanes: int) -> list[str]:
    return timed_rig.arguments(ledgers, out, "--lanes", str(lanes), head=",env=SIM_FACTOR:1.04")


def undisturbed(arguments: list[str]) -> float:
    """Runs once in peace; seconds it took."""
    began = time.monotonic()
    process = launch(arguments)
    _, stderr = process.communicate()
    if process.returncode not in FINAL:
        raise RuntimeError(stderr)
    return time.monotonic() - began


def disturbed(
    arguments: list[str], out: Path, *, kills: int, span_s: float, rng: random.Random, peace: Path
) -> tuple[Counter[str], int]:
    """Runs with up to `kills` kills, resuming after each one of the coordinator; the kills, and verdicts too early."""
    done: Counter[str] = Counter()
    early = 0
    resume: list[str] = []
    while True:
        process = launch([*arguments, *resume])
        rig.harass(
            process, done, most=kills, pause=lambda _: time.sleep(rng.uniform(0.05, span_s / 2)), workers=0.75, rng=rng
        )
        _, stderr = process.communicate()
        if process.returncode in FINAL:
            return done, early
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"exit {process.returncode}: {stderr}")
        # A run whose workers are killed time and again ends without a verdict, and may be killed as it says so.
        if not withheld(out):
            early += sum(
                (out / name).is_file() and (out / name).read_bytes() != (peace / name).read_bytes() for name in TEXTS
            )
        resume = ["--resume"]


def withheld(out: Path) -> bool:
    """Whether what lies there is a decision without a verdict."""
    path = out / "decision.json"
    return path.is_file() and json.loads(path.read_bytes())["gate"] == "no_verdict"


def identities(out: Path) -> set[tuple[str, str, str]]:
    """Every row that lies there: side, shape and provider."""
    return {
        (side, row.shape_id, row.provider)
        for side in ("results", "base_results")
        for path in sorted((out / side).glob(f"*/{store.RESULTS_FILE}"))
        for row in store.read_results(path).outcomes
    }


def trial(folder: Path, *, kills: int, rng: random.Random, peace: Path | None = None, lanes: int = 1) -> dict[str, Any]:
    """One disturbed run against an undisturbed one: the kills, rows lost, texts that differ, verdicts too early."""
    ledgers = prepare(folder)
    span_s = 3.0
    if peace is None:
        peace = folder / "peace"
        span_s = undisturbed(arguments(ledgers, peace, lanes))
    war = arguments(ledgers, folder / "war", lanes)
    done, early = disturbed(war, folder / "war", kills=kills, span_s=span_s, rng=rng, peace=peace)
    differ = [name for name in TEXTS if (folder / "war" / name).read_bytes() != (peace / name).read_bytes()]
    lost = len(identities(peace) - identities(folder / "war"))
    return {"kills": done, "lost": lost, "differ": differ, "early": early, "peace": peace}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--per-run", type=int, default=8)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, total, bad = random.Random(options.seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as name:
        peace, number = None, 0
        while sum(total.values()) < options.kills:
            left = min(options.per_run, options.kills - sum(total.values()))
            found = trial(Path(name) / str(number), kills=left, rng=rng, peace=peace, lanes=options.lanes)
            peace, number = found["peace"], number + 1
            total += found["kills"]
            wrong = bool(found["lost"] or found["differ"] or found["early"])
            bad += wrong
            said = f"rows lost {found['lost']}, texts that differ {found['differ']}, early verdicts {found['early']}"
            print(f"run {number}: {dict(found['kills'])}, {said}", flush=True)
    kills = counted(sum(total.values()), "kill")
    print(f"{kills} ({dict(total)}) in {counted(number, 'run')}: runs that differ: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
