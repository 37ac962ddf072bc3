"""One GPU against all of this machine's: how much sooner the same shapes are measured, and whether every row is there.

python -m tests.bench.replay_gpus [--op rmsnorm] [--shapes 24] [--simulate 2]      (needs two GPUs, or none to simulate)

`measuring` runs from the first visit that counts to the last, so without the start of interpreters and GPU contexts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gate.model.text import counted
from tests.replay import rig


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one run left: seconds in all and of measuring, shapes by GPU, what is missing, and each row's status."""

    wall_s: float
    measuring_s: float
    by_gpu: list[int]
    missing: list[str]
    rows: dict[tuple[str, str, str], str]


def command(folder: Path, *, op: str, shapes: int, gpus: str, simulated: bool) -> list[str]:
    if simulated:
        rig.write_inputs(folder, ledger=rig.shapes(shapes))
        return [*rig.arguments(folder, "--lanes", "2"), "--base", f"path={rig.ROOT}", "--gpus", gpus]
    chosen = ["--op", op, "--candidate", "triton", "--providers", "pytorch", "--base", "", "--limit", str(shapes)]
    return ["replay", *chosen, "--blocks", "4", "--seed", "7", "--gpus", gpus, "--out", str(folder / "out")]


def measured(folder: Path, op: str, arguments: list[str]) -> Found:
    done = rig.subprocess.run(
        [sys.executable, "-m", "gate", *arguments], cwd=rig.ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    times = [float(sample["at"]) for sample in rig.samples(folder)]
    rows = {
        (side, row.shape_id, str(row.provider)): str(row.benchmark_status)
        for side in ("head", "base")
        for row in rig.store.read_results(folder / "out" / side / op / "benchmark_results.jsonl").outcomes
    }
    return Found(
        wall_s=float(manifest["wall_s"]),
        measuring_s=max(times) - min(times),
        by_gpu=[machine["shapes"] for machine in manifest["machines"]],
        missing=manifest["missing"],
        rows=rows,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--op", default="rmsnorm")
    parser.add_argument("--shapes", type=int, default=24)
    parser.add_argument("--simulate", type=int)
    options = parser.parse_args()
    several = str(options.simulate) if options.simulate is not None else "all"
    found: list[Found] = []
    print(f"{'GPUs':>5} {'wall s':>8} {'measuring s':>12} {'shapes by GPU':>16} {'missing':>8} {'rows ok':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for gpus in ("1", several):
            place = Path(folder) / gpus
            place.mkdir()
            simulated = options.simulate is not None
            arguments = command(place, op=options.op, shapes=options.shapes, gpus=gpus, simulated=simulated)
            run = measured(place, options.op, arguments)
            found.append(run)
            fine = sum(status == "ok" for status in run.rows.values())
            spread = "+".join(map(str, run.by_gpu))
            print(
                f"{len(run.by_gpu):>5} {run.wall_s:>8.1f} {run.measuring_s:>12.1f} {spread:>16} {len(run.missing):>8} "
                f"{fine:>8}",
                flush=True,
            )
    one, more = found
    whole = one.rows == more.rows and not one.missing and not more.missing
    print(f"speed-up: measuring {one.measuring_s / more.measuring_s:.2f}, wall {one.wall_s / more.wall_s:.2f}")
    print(f"{counted(len(one.rows), 'row')}, the same with the same status: {whole}")
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
