"""What the half without a GPU costs as the results grow: judge, validate and report; prints one table.

Each cell is one run of one command in a process of its own; `x` is seconds of processor time over those of the size
before, divided by the growth in rows: 1 is linear. `gate --help` stands beside it as the cost of starting at all.

    python -m tests.bench.cpu_half [--sizes 1000,100000,1000000]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.judge_scale import PER_SHAPE, write_inputs


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands over the files of `folder`, in the order in which they need each other."""
    ledger, matrix = ["--ledger", f"{folder}/shape_ledger.jsonl"], ["--matrix", f"{folder}/baseline_matrix.yaml"]
    base, head = ["--base", f"{folder}/base.jsonl"], ["--head", f"{folder}/head.jsonl"]
    day = ["--today", "2026-06-01"]
    return {
        "--help": ["--help"],
        "validate": ["validate", f"{folder}/head.jsonl"],
        "judge": ["judge", *ledger, *matrix, *base, *head, *day, "--out", f"{folder}/out"],
        "report all": ["report", "all", "--from", f"{folder}/out", *matrix, *head, *base],
    }


def run(arguments: list[str]) -> tuple[float, float, float, int]:
    """Wall and processor seconds, peak memory in GB of the largest process, and the exit code."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "gate", *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, os.waitstatus_to_exitcode(status)


def main() -> None:
    """Prints one line per size and command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,100000,1000000")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    columns = ("command", "rows a side", "wall s", "cpu s", "x", "peak GB", "exit")
    print("".join(f"{name:>17}" for name in columns))
    before: dict[str, tuple[float, int]] = {}
    for rows in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_inputs(folder, rows=rows // PER_SHAPE * PER_SHAPE, blocks=0)
            for command, arguments in commands(folder).items():
                wall, cpu, memory, code = run(arguments)
                earlier = before.get(command)
                growth = "" if earlier is None else f"{cpu / earlier[0] / (rows / earlier[1]):.2f}"
                before[command] = (cpu, rows)
                cells = (command, f"{rows:,}", f"{wall:.2f}", f"{cpu:.2f}", growth, f"{memory:.2f}", str(code))
                print("".join(f"{cell:>17}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
