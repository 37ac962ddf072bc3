"""How long the command line takes to start, beside Python itself and git: one table, all in one run, interleaved.

python tests/bench/cli_start.py [--runs 30]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

GATE = str(Path(sys.executable).with_name("gate"))
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "git --version": ["git", "--version"],
    "gate --version": [GATE, "--version"],
    "gate --help": [GATE, "--help"],
    "gate validate --help": [GATE, "validate", "--help"],
}


def once_ms(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    runs = parser.parse_args().runs
    for command in COMMANDS.values():
        once_ms(command)
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, command in COMMANDS.items():
            times[name].append(once_ms(command))
    bare = times["python -c pass"]
    print(f"{'command':<22} {'median ms':>9} {'min':>7} {'max':>7}  median of ratio to python -c pass")
    for name, taken in times.items():
        ratio = statistics.median(t / b for t, b in zip(taken, bare, strict=True))
        print(f"{name:<22} {statistics.median(taken):9.1f} {min(taken):7.1f} {max(taken):7.1f}  {ratio:.2f}")


if __name__ == "__main__":
    main()
