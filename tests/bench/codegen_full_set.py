"""Wall time, peak memory and results of recording a FlyDSL checkout's kernels, cold and from the cache.

python -m tests.bench.codegen_full_set --flydsl-checkout DIR [--python PY] [--ledgers DIR] [--jobs N]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from gate import store
from gate.model.codegen import CodegenRecord
from gate.model.text import counted

SAMPLE_SECONDS = 0.5


def resident_mib(root: int) -> float:
    """Resident memory of a process and all below it, in MiB, from /proc."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    page = resource.getpagesize()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                sizes[int(entry.name)] = int((entry / "statm").read_text().split()[1]) * page
            except (OSError, IndexError):
                continue
            parents[int(entry.name)] = int(fields[1])
    below = {root}
    while grown := {child for child, parent in parents.items() if parent in below} - below:
        below |= grown
    return sum(sizes.get(process, 0) for process in below) / (1 << 20)


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds of all children, and the peak of the whole tree's resident memory in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    peak = 0.0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(SAMPLE_SECONDS):
            peak = max(peak, resident_mib(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.wait()
    done.set()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - started, cpu, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flydsl-checkout", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--ledgers")
    parser.add_argument("--jobs", default="2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        command = [sys.executable, "-m", "gate", "codegen", "record", "--out", str(out), "--jobs", options.jobs]
        command += ["--flydsl-checkout", options.flydsl_checkout, "--python", options.python]
        command += ["--ledgers", options.ledgers] if options.ledgers else []
        environment = {**os.environ, "XDG_CACHE_HOME": str(Path(scratch) / "cache")}
        print(f"{'':8} {'wall s':>8} {'CPU s':>8} {'peak MiB':>9}")
        for title in ("cold", "cached"):
            wall, cpu, peak = timed(command, environment)
            print(f"{title:8} {wall:8.1f} {cpu:8.1f} {peak:9.0f}", flush=True)
        records = list(store.read_codegen(sorted(out.glob(f"*/{store.CODEGEN_FILE}"))).values())
    tell(records)


def tell(records: list[CodegenRecord]) -> None:
    """Results by op, the most expensive first."""
    ops = sorted({record.op_type for record in records})
    spent = {op: sum(record.compile_seconds or 0 for record in records if record.op_type == op) for op in ops}
    for op in sorted(ops, key=lambda op: -spent[op]):
        mine = [record for record in records if record.op_type == op]
        good = sum(record.status == "ok" for record in mine)
        print(f"{op:34} {good:3} of {len(mine):3} ok {spent[op]:8.1f} s")
    print(f"{counted(len(records), 'compile key')}, {sum(record.status == 'ok' for record in records)} ok")


if __name__ == "__main__":
    main()
