"""What a run of tests/bench/full_gate.py says of itself, and what is kept of it."""

from __future__ import annotations

import gzip
import json
import math
import statistics
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gate import store
from gate.model.text import counted
from gate.replay.journal_lines import JOURNAL

if TYPE_CHECKING:
    from tests.bench.full_gate import Plan

KEPT_BYTES = 14 * 1024 * 1024
# What a decision, a baseline and a resumed judgement are made of; the rest can be made again from these.
NEEDED = ("decision.json", "part.json", "run.json", "plan.json", "manifest.json", JOURNAL, store.RESULTS_FILE)
LEFT_OUT = ("raw_samples", ".lock")


def ended(main: Callable[[], int]) -> int:
    """The exit code of a script; of one that is interrupted 130, after one line."""
    try:
        return main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def follow(process: subprocess.Popen[str], began: float) -> None:
    """Tells each line of the process's standard error as it comes; an interruption ends the process first."""
    try:
        for line in process.stderr or ():
            print(f"  {time.monotonic() - began:5.0f} s  {line.rstrip()}", flush=True)
    except KeyboardInterrupt:
        # What it writes is read or removed next.
        process.terminate()
        process.wait()
        raise


def manifests(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted(out.glob("*/manifest.json"))]


def records(folder: Path) -> list[dict[str, Any]]:
    """The finished shapes in the journal of `folder`, one for each process pair that measured them."""
    path = folder / JOURNAL
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return [line for line in lines if "shape_id" in line]


def tell(plan: Plan, decision: dict[str, Any], took: float, out: Path, *, seeded: bool) -> None:
    """The tables of the run: time, how it was spent, and what was found of what was seeded."""
    rows = {row["shape_id"]: row for row in decision["rows"]}
    print(f"\ngate run: {decision['gate']}; {decision['summary']}")
    tell_ops(plan, rows, out)
    measured = [row for row in rows.values() if row["ratio"] is not None]
    tell_time(plan, measured, took, out)
    tell_looks(out)
    tell_spent(out)
    tell_red(plan, rows, {row["shape_id"] for row in measured}, seeded=seeded)
    tell_shards(plan, out)


def tell_ops(plan: Plan, rows: dict[str, dict[str, Any]], out: Path) -> None:
    """Verdicts op by op, and the geomean of how much quicker the candidate is than each baseline."""
    names = plan.providers.split(",")
    speed = speedups(out, plan.candidate, names)
    heads = f"{'op':>32} {'shapes':>7} {'judged':>7} {'red':>4} {'open':>5} {'faster':>7}"
    print(heads + "".join(f" {f'vs {name}':>{max(9, len(name) + 3)}}" for name in names))
    for op in [*sorted({shape.op_type for shape in plan.shapes}), ""]:
        own = [rows[shape.shape_id] for shape in plan.shapes if op in ("", shape.op_type)]
        count = Counter(row["verdict"] for row in own)
        judged = sum(row["ratio"] is not None for row in own)
        line = f"{op or 'all':>32} {len(own):>7} {judged:>7} {count['regressed']:>4} {count['inconclusive']:>5}"
        cells = [geomean(value for key, value in speed[name] if op in ("", key)) for name in names]
        told = "".join(f" {cell:>{max(9, len(name) + 3)}}" for cell, name in zip(cells, names, strict=True))
        print(f"{line} {count['improved']:>7}{told}")


def speedups(out: Path, candidate: str, names: Iterable[str]) -> dict[str, list[tuple[str, float]]]:
    """By baseline, (op, its time over that of head's candidate) of every shape that both have a time of."""
    found: dict[str, list[tuple[str, float]]] = {name: [] for name in names}
    for path in sorted((out / "results").glob(f"*/{store.RESULTS_FILE}")):
        times: dict[str, dict[str, float]] = {}
        for row in store.read_results(path).outcomes:
            if row.benchmark_status == "ok" and row.median_us:
                times.setdefault(row.shape_id, {})[row.provider] = row.median_us
        for own in times.values():
            for name in found:
                if name in own and candidate in own:
                    found[name].append((path.parent.name, own[name] / own[candidate]))
    return found


def geomean(values: Iterable[float]) -> str:
    logs = [math.log(value) for value in values]
    return f"{math.exp(statistics.fmean(logs)):.2f}x" if logs else "-"


def tell_time(plan: Plan, measured: list[dict[str, Any]], took: float, out: Path) -> None:
    told = manifests(out)
    names = ("wall_s", "token_held_s", "measuring_s", "timed_gpu_s")
    wall_s, held_s, alone_s, timed_s = (sum(one[name] for one in told) for name in names)
    gpus = max(len({machine["gpu"] for one in told for machine in one["machines"]}), 1)
    per, whole_s = 100 / max(len(measured), 1), max(wall_s, 1e-9) * gpus
    print(
        f"{len(measured)} of {counted(len(plan.shapes), 'shape')}, 2 arms and {plan.providers}: {took / 60:.2f} min "
        f"wall with start and reports, {wall_s / 60:.2f} min measuring on {gpus} GPU; in use {held_s / whole_s:.0%}, "
        f"measured on {alone_s / whole_s:.0%}, timed {timed_s / whole_s:.0%}"
    )
    print(
        f"per 100 shapes: {wall_s * per:.1f} s wall measuring, {took * per:.1f} s with start and reports, "
        f"{held_s * per:.1f} GPU s in use, {alone_s * per:.1f} measured on, {timed_s * per:.2f} GPU s timed"
    )
    prepared_s = sum(machine["preparing_s"] for one in told for machine in one["machines"])
    beside = prepared_s / max(held_s - alone_s, 1e-9)
    print(f"preparing: {prepared_s * per:.1f} s per 100 shapes, {beside:.1f} lanes at a time")
    print(f"worker restarts: {sum(one['worker_restarts'] for one in told)}")


def tell_looks(out: Path) -> None:
    """How many shapes were measured by more than one process pair, and how many were confirmed."""
    pairs = Counter(record["shape_id"] for record in records(out / "replay"))
    again = [count for count in pairs.values() if count > 1]
    confirmed = {record["shape_id"] for record in records(out / "confirm")}
    print(
        f"looks: more than one for {len(again)} of {counted(len(pairs), 'shape')} (at most "
        f"{counted(max(again, default=1), 'process pair')}), {len(confirmed)} measured again to confirm"
    )


def tell_spent(out: Path) -> None:
    """Where the seconds of the shapes went, by command to the workers, over all lanes."""
    for folder in sorted(path.parent for path in out.glob(f"*/{JOURNAL}")):
        found = records(folder)
        spent: Counter[str] = Counter()
        for record in found:
            spent.update(record["spent_s"])
        told = ", ".join(f"{name} {seconds / len(found):.3f}" for name, seconds in spent.most_common())
        print(f"{folder.name}: {counted(len(found), 'record')}; seconds of each: {told}")


def tell_red(plan: Plan, rows: dict[str, dict[str, Any]], ran: set[str], *, seeded: bool) -> None:
    """What was found of what was seeded, and what is red besides."""
    red = {shape_id for shape_id, row in rows.items() if row["verdict"] == "regressed"}
    wanted = set(plan.dials) & ran
    if not seeded:
        print(f"identical arms: {len(red)} red of {len(ran)}")
    else:
        told = f"measured {len(wanted)}, found {len(red & wanted)}; red besides {len(red - wanted)}"
        print(f"seeded: {len(plan.dials)}, {told}")
    for shape_id in plan.dials:
        row = rows[shape_id]
        share = f"{100 * (row['ratio'] - 1):+.2f}%" if row["ratio"] else "-"
        print(
            f"  {row['op_type']:>22} {row['base_us'] or 0:>9.2f} us, calibrated {plan.calibrated[shape_id]:+.1%}, "
            f"read {share:>8}, {row['verdict']} ({', '.join(row['reasons'])})"
        )
    for shape_id in sorted(red - wanted):
        row = rows[shape_id]
        print(f"  false: {row['op_type']} {row['args']} {row['base_us']:.2f} us x{row['ratio']:.4f} {row['detail']}")


def tell_shards(plan: Plan, out: Path) -> None:
    """What all shapes of these ops would take on 1, 2, 4 and 8 runners, by the seconds that this run spent."""
    argv = [sys.executable, "-m", "gate", "shard", "plan", "--runners", "8", "--ledgers", str(plan.ledgers)]
    argv += ["--candidate", plan.candidate, "--providers", plan.providers, "--costs", str(out / "replay")]
    argv += [*plan.more[:2], "--out", str(out / "plan.json")]
    done = subprocess.run(argv, cwd=Path(__file__).parents[2], text=True, capture_output=True, check=False)
    lines = done.stderr.splitlines()
    print("\n".join([lines[0], lines[-1]] if lines else []), flush=True)


def keep(out: Path, place: Path, *, limit: int = KEPT_BYTES) -> str:
    """Copies what the run wrote, journals compressed, without samples and logs; what that comes to, in words.

    Where it would be over `limit` bytes compressed, only what nothing else can be made of is copied.
    """
    files = [path for path in sorted(out.rglob("*")) if path.is_file() and not _left_out(path.relative_to(out))]
    small = {path: len(zlib.compress(path.read_bytes())) for path in files}
    whole = sum(small.values())
    kept = files if whole <= limit else [path for path in files if path.name in NEEDED]
    for path in kept:
        target, data = place / path.relative_to(out), path.read_bytes()
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.name == JOURNAL:
            target, data = target.with_name(f"{JOURNAL}.gz"), gzip.compress(data)
        target.write_bytes(data)
    size = sum(small[path] for path in kept) / 1024 / 1024
    less = len(files) - len(kept)
    without = f"; {counted(less, 'file is', 'files are')} left out of {whole >> 20} MiB in all" if less else ""
    return f"kept {counted(len(kept), 'file')}, {size:.1f} MiB compressed, in {place}{without}"


def _left_out(path: Path) -> bool:
    return "logs" in path.parts[:-1] or path.name.startswith(LEFT_OUT)
