"""How long a judgement takes and what memory it needs, from 800 rows to a million on each side; prints a table.

Each size runs `gate judge` once in a process of its own. Rows are one line of results: shapes x 4 providers.

    python -m tests.bench.judge_scale [--sizes 800,10000,100000,1000000] [--blocks 0|4]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gate import store
from tests.analysis import build

PROVIDERS = {"flydsl": 1.0, "aiter": 1.02, "triton": 1.1, "pytorch": 2.0}
PER_SHAPE = len(PROVIDERS)


def write_inputs(folder: Path, *, rows: int, blocks: int) -> None:
    """A ledger, a matrix and two runs with `rows` result rows each; one row in 1,000 is twice as slow in head."""
    shapes = [build.shape(1 + index) for index in range(rows // PER_SHAPE)]
    store.write_jsonl(folder / "shape_ledger.jsonl", shapes)
    matrix = {
        "kernel": "rmsnorm",
        "op_type": "rmsnorm",
        "dtype": "bf16",
        "providers": {name: {"enabled": True, "entrypoint": f"pkg:{name}", "provider": name} for name in PROVIDERS},
    }
    store.write_text(folder / "baseline_matrix.yaml", json.dumps(matrix))
    for side, seed in (("base", 1), ("head", 2)):
        rng = random.Random(seed)
        with (folder / f"{side}.jsonl").open("wb") as file:
            for index, shape in enumerate(shapes):
                slow = 2.0 if side == "head" and index % 1000 == 0 else 1.0
                floor_us = 3.0 + index * 0.01
                for name, factor in PROVIDERS.items():
                    us = floor_us * factor * (slow if name == "flydsl" else 1.0)
                    made = build.blocks(us, rng, k=blocks) if blocks else None
                    median = us * (1 + rng.gauss(0, 0.002))
                    row = build.outcome(shape, name, median, blocks_us=made, p10_us=median * 0.99, p90_us=median * 1.01)
                    file.write(store.encode(row) + b"\n")


def measure(folder: Path) -> tuple[float, float, float, int]:
    """Wall and processor seconds, peak memory in GB and exit code of one `gate judge`."""
    command = [sys.executable, "-m", "gate", "judge", "--out", str(folder / "out"), "--today", "2026-06-01"]
    for option, name in (("ledger", "shape_ledger.jsonl"), ("matrix", "baseline_matrix.yaml")):
        command += [f"--{option}", str(folder / name)]
    command += ["--base", str(folder / "base.jsonl"), "--head", str(folder / "head.jsonl")]
    before, start = _cpu(), time.perf_counter()
    code = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
    wall = time.perf_counter() - start
    return wall, _cpu() - before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6, code


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Prints one line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="800,10000,100000,1000000")
    parser.add_argument("--blocks", type=int, default=0)
    given = parser.parse_args()
    columns = ("rows a side", "shapes", "blocks", "MB a side", "wall s", "cpu s", "peak GB", "exit")
    print("".join(f"{name:>12}" for name in columns))
    for rows in (int(size) for size in given.sizes.split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_inputs(folder, rows=rows, blocks=given.blocks)
            size = (folder / "head.jsonl").stat().st_size / 1e6
            wall, cpu, memory, code = measure(folder)
        cells = (f"{rows:,}", f"{rows // PER_SHAPE:,}", str(given.blocks), f"{size:.0f}", f"{wall:.2f}", f"{cpu:.2f}")
        print("".join(f"{cell:>12}" for cell in (*cells, f"{memory:.2f}", str(code))), flush=True)


if __name__ == "__main__":
    main()
