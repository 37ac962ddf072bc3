"""How the history bears ten million rows: import, queries, page, export, compaction, sizes on disk, memory.

    python -m tests.bench.history_scale [--runs 2000] [--shapes 1250] [--folder DIR] [--jobs 1 2] [--import-only]

Every step is one `gate history` command in a process of its own. Rows are written as JSON lines, a hundred runs at a
time, and removed once they are in the store; the time to make them is not counted. With several numbers of `--jobs`
each hundred is imported with each in turn, and the stores must be the same to the byte.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from gate.model.text import counted

ROOT = Path(__file__).resolve().parents[2]
PROVIDERS = ("flydsl", "triton", "aiter", "pytorch")
BATCH = 100
ROW = (
    '{"run_id":"night-%d","shape_id":"sha1:%016x","provider":"%s","provider_detail":"%s of the benchmark",'
    '"candidate_commit":"%040x","gpu":"AMD Instinct MI350X","arch":"gfx950","rocm_version":"7.2.0","correct":true,'
    '"warmup_iters":25,"repeat_iters":100,"benchmark_status":"ok","median_us":%.6f,"timing_method":"graph_slope",'
    '"cache_state":"cold_hbm","p10_us":%.6f,"p90_us":%.6f,"stable":true,"session_id":"session-%d",'
    '"driver_version":"6.14.14","torch_version":"2.9.1","triton_version":"3.6.0","flydsl_version":"0.5.0",'
    '"model":"Some Model","stage":"decode","dtype":"bf16","op_type":"%s","args":{"M":%d,"N":8192},'
    '"blocks_us":[[%.4f,%.4f],[%.4f,%.4f],[%.4f,%.4f],[%.4f,%.4f]]}\n'
)


def write_run(folder: Path, number: int, shapes: int) -> None:
    """One night: every shape and provider, 0.5% noise; one shape in fifty steps by 5% half-way."""
    rng = random.Random(number)
    day = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=number)
    path = folder / f"{number:06d}" / "head" / "benchmark_results.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        for shape in range(shapes):
            for at, provider in enumerate(PROVIDERS):
                step = 1.05 if shape % 50 == 0 and at == 0 and number % 400 > 200 else 1.0
                time_us = (2.0 + shape % 97) * (1 + 0.1 * at) * step * (1 + rng.gauss(0, 0.005))
                file.write(
                    ROW
                    % (
                        number, shape, provider, provider, number, time_us, time_us * 0.99, time_us * 1.01, number,
                        f"op{shape % 18}", shape + 1, *[time_us] * 8,
                    )
                )  # fmt: skip
    os.utime(path, (day.timestamp(), day.timestamp()))


class Cost(NamedTuple):
    """Wall and processor seconds, and the peak memory of the largest process in MiB."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0


def gate(*argv: str) -> tuple[Cost, str]:
    """What a command cost, and the last line that it said."""
    begun = time.perf_counter()
    code = f"import resource, sys\nfrom gate.cli import run\ncode = run({argv!r})\n"
    code += "kinds = [resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]\n"
    code += "peak, used = max(k.ru_maxrss for k in kinds), sum(k.ru_utime + k.ru_stime for k in kinds)\n"
    code += "print(f'peak {peak} {used}', file=sys.stderr)\nsys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    seconds = time.perf_counter() - begun
    if done.returncode != 0:
        raise SystemExit(f"gate {' '.join(argv[:3])}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    peak, used = done.stderr.rsplit("peak ", 1)[1].split()
    return Cost(seconds, float(used), int(peak) / 1024), done.stdout.strip().splitlines()[
        -1
    ] if done.stdout.strip() else ""


def size_mib(folder: Path) -> tuple[int, float]:
    files = list(folder.rglob("*.parquet"))
    return len(files), sum(path.stat().st_size for path in files) / 2**20


def contents(folder: Path) -> frozenset[tuple[Path, str]]:
    """The files below a folder and their SHA-256."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return frozenset((path.relative_to(folder), sha256(path.read_bytes()).hexdigest()) for path in files)


def import_all(work: Path, stores: dict[str, Path], *, runs: int, shapes: int) -> None:
    """Fills each store with the number of jobs that it is named by; "" is the default."""
    totals, read = dict.fromkeys(stores, Cost()), 0
    for first in range(0, runs, BATCH):
        batch = work / "batch"
        for number in range(first, min(first + BATCH, runs)):
            write_run(batch, number, shapes)
        read += sum(path.stat().st_size for path in batch.rglob("*.jsonl"))
        for jobs, store in stores.items():
            asked = ("--jobs", jobs) if jobs else ()
            cost, _ = gate("history", "add", *asked, "--store", str(store), *map(str, sorted(batch.iterdir())))
            had = totals[jobs]
            totals[jobs] = Cost(had.wall_s + cost.wall_s, had.cpu_s + cost.cpu_s, max(had.peak_mib, cost.peak_mib))
        shutil.rmtree(batch)
    rows = runs * shapes * len(PROVIDERS)
    first_total = next(iter(totals.values()))
    for jobs, total in totals.items():
        note = f"{rows:,} rows of {read / 2**30:.1f} GiB JSON; {rows / total.cpu_s:,.0f} rows a CPU second"
        ratios = (
            f"; wall {total.wall_s / first_total.wall_s:.2f}, CPU {total.cpu_s / first_total.cpu_s:.2f} of the first"
        )
        say(f"import, jobs {jobs or 'as by default'}", total, note + (ratios if len(totals) > 1 else ""))
    if len({contents(store) for store in stores.values()}) > 1:
        raise SystemExit("the stores differ")
    files, mib = size_mib(next(iter(stores.values())))
    say("on disk", Cost(), f"{counted(files, 'file')}, {mib:.0f} MiB, {mib * 2**20 / rows:.0f} bytes a row")


def say(what: str, cost: Cost, note: str) -> None:
    print(f"| {what} | {cost.wall_s:.1f} | {cost.cpu_s:.1f} | {cost.peak_mib:.0f} | {note.strip()} |", flush=True)


def queries(store: Path, work: Path, name: str) -> None:
    shape = f"sha1:{50:016x}"
    steps = {
        "overview": ("show",),
        "one shape's trend": ("trend", "--shape", shape, "--provider", "flydsl"),
        "one op's trends": ("trend", "--op", "op0"),
        "all trends": ("trend",),
        "page": ("page", "--out", str(work / "page.html")),
        "export of one op as CSV": ("export", "--op", "op0", "--out", str(work / "out.csv")),
        "export of all as JSONL": ("export", "--out", str(work / "out.jsonl")),
    }
    for what, (verb, *rest) in steps.items():
        cost, note = gate("history", verb, "--store", str(store), *rest)
        say(f"{what}, {name}", cost, note)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=2000)
    options.add_argument("--shapes", type=int, default=1250)
    options.add_argument("--folder", type=Path)
    options.add_argument("--jobs", nargs="+", default=[""])
    options.add_argument("--import-only", action="store_true")
    given = options.parse_args()
    work = given.folder or Path(tempfile.mkdtemp(prefix="history-scale-"))
    stores = {jobs: work / f"store{jobs}" for jobs in given.jobs}
    store = stores[given.jobs[0]]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("| step | wall s | CPU s | peak MiB | |\n|---|--:|--:|--:|---|")
    if not store.exists():
        import_all(work, stores, runs=given.runs, shapes=given.shapes)
    if not given.import_only:
        queries(store, work, "a file a run")
        cost, _ = gate("history", "compact", "--store", str(store))
        files, mib = size_mib(store)
        say("compaction", cost, f"{counted(files, 'file')}, {mib:.0f} MiB")
        queries(store, work, "compacted")
    if given.folder is None:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
