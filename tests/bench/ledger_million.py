"""Times import, check, show and a small upsert on a ledger of many rows and prints seconds and peak memory.

Usage: python tests/bench/ledger_million.py [ROWS]
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gate.model.text import counted

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, *arguments: str) -> tuple[float, float, float, int]:
    """Wall seconds, processor seconds, peak memory in MB and exit code of one `gate` command."""
    started = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "gate", *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    busy = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - started, busy, usage.ru_maxrss / 1024, process.returncode


def write_source(path: Path, rows: int) -> None:
    """A manual list of `rows` different shapes."""
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for index in range(rows):
            m, n = 1 + index % 1000, 64 * (1 + index // 1000)
            row = f'{{"op_type":"rmsnorm","dtype":"bf16","args":{{"M":{m},"N":{n},"eps":1e-05}},"model":"bench"}}'
            file.write(row if index == 0 else "," + row)
        file.write("]")


def main() -> None:
    """Prints one line a command."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_source(folder / "shapes.json", rows)
        (folder / "rmsnorm").mkdir()
        matrix = ROOT / "frozen_ledgers" / "rmsnorm" / "baseline_matrix.yaml"
        (folder / "rmsnorm" / "baseline_matrix.yaml").write_bytes(matrix.read_bytes())
        for title, arguments in (
            ("import, new ledger", ("ledger", "import", "manual", "shapes.json", "--ledgers", ".")),
            ("import again", ("ledger", "import", "manual", "shapes.json", "--ledgers", ".")),
            ("import 13 probes into it", ("ledger", "import", "synthetic", "--op", "rmsnorm", "--ledgers", ".")),
            ("freeze", ("ledger", "freeze", "rmsnorm")),
            ("check", ("ledger", "check", "rmsnorm")),
            ("show", ("ledger", "show", "rmsnorm")),
            ("diff with itself", ("ledger", "diff", "rmsnorm", "rmsnorm")),
        ):
            seconds, busy, peak, code = run(folder, *arguments)
            print(f"{title:26} {seconds:7.1f} s  busy {busy:7.1f} s {peak:8.0f} MB  exit {code}", flush=True)
        size = (folder / "rmsnorm" / "shape_ledger.jsonl").stat().st_size
        print(f"{counted(rows, 'row')}, ledger of {size / 1e6:.0f} MB, this process {own_peak():.0f} MB")


def own_peak() -> float:
    """Peak memory of this script itself, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
