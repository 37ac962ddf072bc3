"""The whole gate on the frozen ledgers: identical arms or seeded slowdowns, beside the usual ways to time a kernel.

    python -m tests.bench.full_gate --seconds 140 [--seeded 20] [--shapes 150] [--gpus all]      (needs a GPU)

Head and base are the package's Triton kernels in processes of their own, with torch's as the baseline. With --seeded
so many random shapes of more than 1 us get a tail of dependent work in head's kernel, calibrated to +3%. The run stops
itself in time and tells what it has; then the same shapes are timed by the one-launch graph and by a plain loop of
triton.testing.do_bench, each side in a process of its own and held to the usual rule (more than 5% slower is red).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gate import store
from gate.model.shape import Shape
from gate.replay.chips import Chip
from gate.replay.link import Link
from gate.replay.timer import plan_ring
from gate.resources import frozen_ledgers_dir

ROOT = Path(__file__).resolve().parents[2]
USUAL_LIMIT = 1.05
LEAST_US = 1.0
COMPARE_SHARE = 0.18
OTHERS = ("one_launch", "do_bench")
WORKER_LIMIT_S = 60.0


@dataclass(slots=True, kw_only=True)
class Plan:
    """What is measured: the ledgers made for the run, its shapes, and the dial of each seeded one."""

    ledgers: Path
    shapes: list[Shape]
    dials: dict[str, int] = field(default_factory=dict)
    calibrated: dict[str, float] = field(default_factory=dict)


class Side:
    """A bench worker with one shape open."""

    def __init__(self, name: str) -> None:
        log = Path(tempfile.gettempdir()) / "full-gate" / f"{name}.log"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, str(ROOT / "tests/bench/dialled_worker.py")]
        self.link = Link(name=name, command=command, environment=environment, log=log)
        self.chip = Chip(**self.ask("hello", device="gpu")["chip"])

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        reply = self.link.ask({"do": do, "arm": "a", **more}, timeout_s=WORKER_LIMIT_S)
        if reply["status"] != "ok":
            raise RuntimeError(f"{do}: {reply['status']}: {reply.get('reason')}")
        return reply

    def ready(self, shape: Shape, *, budget_us: float) -> None:
        self.ask("drop")
        case = {name: getattr(shape, name) for name in ("shape_id", "op_type", "dtype")}
        case |= {"args": dict(shape.args), "layout": dict(shape.layout)}
        self.ask("open", case=case, seed=12345, entrypoint="tests.bench.dialled:Adapter")
        pilot = self.ask("pilot")
        ring = plan_ring(
            footprint_bytes=int(pilot["footprint_bytes"]),
            estimate_us=float(pilot["estimate_us"]),
            chip=self.chip,
            free_bytes=int(pilot["free_bytes"]),
            budget_us=budget_us,
        )
        self.ask("build", plan=asdict(ring))
        self.ask("capture")


def make_plan(folder: Path, options: argparse.Namespace, rng: random.Random) -> Plan:
    """Ledgers with the dialled kernels in Triton's place, and the shapes, or a sample of them."""
    shapes: list[Shape] = []
    for source in sorted(frozen_ledgers_dir().glob(f"*/{store.MATRIX_FILE}")):
        matrix = yaml.safe_load(source.read_text())
        triton = matrix["providers"].get("triton", {})
        if not triton.get("enabled") or (options.op and matrix["op_type"] not in options.op):
            continue
        triton["entrypoint"] = "tests.bench.dialled:Adapter"
        target = folder / "ledgers" / source.parent.name
        ledger = store.read_ledger(source.parent / store.LEDGER_FILE).shapes
        store.write_jsonl(target / store.LEDGER_FILE, ledger)
        store.write_text(target / store.MATRIX_FILE, yaml.safe_dump(matrix, sort_keys=False))
        shapes += ledger
    if options.shapes:
        picked = set(rng.sample(range(len(shapes)), min(options.shapes, len(shapes))))
        shapes = [shape for number, shape in enumerate(shapes) if number in picked]
    subprocess.run([sys.executable, "-m", "gate", "ledger", "freeze", str(folder / "ledgers")], check=True, stdout=-3)
    return Plan(ledgers=folder / "ledgers", shapes=shapes)


def seed_shapes(plan: Plan, count: int, *, slower: float, until: float, rng: random.Random) -> None:
    """Turns the dial of `count` random shapes to about `slower`; those below 1 us, or that do not run, are passed."""
    side = Side("calibrate")
    order = rng.sample(plan.shapes, len(plan.shapes))
    try:
        while order and len(plan.dials) < count and time.monotonic() < until:
            shape = order.pop()
            try:
                side.ready(shape, budget_us=500.0)
                found = turned(side, slower)
            except RuntimeError as error:
                print(f"  not seeded: {shape.op_type} {shape.args}: {str(error)[:120]}")
                continue
            if found is not None:
                plan.dials[shape.shape_id], plan.calibrated[shape.shape_id] = found
    finally:
        side.link.close()


def turned(side: Side, slower: float) -> tuple[int, float] | None:
    """The dial that comes nearest to `slower`, and what it does there; None for a kernel of less than 1 us."""
    base = side.ask("dial", rounds=0)["t_us"]
    if base < LEAST_US:
        return None
    seen, rounds = {0: 0.0}, 8
    while max(seen.values()) < slower and rounds < 1 << 18:
        seen[rounds] = side.ask("dial", rounds=rounds)["t_us"] / base - 1
        rounds *= 3
    for _ in range(5):
        below = max(value for value, by in seen.items() if by <= slower)
        above = min((value for value, by in seen.items() if by > slower and value > below), default=below)
        middle = (below + above) // 2
        if middle in (below, above) or abs(seen[below] / slower - 1) < 0.05:
            break
        seen[middle] = side.ask("dial", rounds=middle)["t_us"] / base - 1
    best = min(seen, key=lambda value: abs(seen[value] - slower))
    return (best, seen[best]) if 0.7 * slower < seen[best] < 1.5 * slower else None


def run_gate(plan: Plan, folder: Path, options: argparse.Namespace, *, seconds: float) -> tuple[dict[str, Any], float]:
    """decision.json of the whole job, and the seconds it took."""
    out, ids, dials = folder / "out", folder / "shapes.txt", folder / "dials.json"
    ids.write_text("".join(f"{shape.shape_id}\n" for shape in plan.shapes))
    dials.write_text(json.dumps(plan.dials))
    argv = [sys.executable, "-m", "gate", "run", "--replay", "--ledgers", str(plan.ledgers), "--candidate", "triton"]
    argv += ["--providers", options.providers, "--shapes-from", str(ids), "--out", str(out), "--no-code"]
    argv += ["--head", f"path={ROOT},env=DIAL_TABLE:{dials}", "--base", f"path={ROOT}", "--gpus", options.gpus]
    argv += ["--lanes", str(options.lanes), "--minutes", f"{max(seconds, 5) / 60:.3f}", "--seed", str(options.seed)]
    began = time.monotonic()
    done = subprocess.run(argv, cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    took = time.monotonic() - began
    print("".join(f"  {line}\n" for line in done.stderr.splitlines()[-6:]), end="")
    if not (out / "decision.json").is_file():
        raise SystemExit(f"gate run ended with {done.returncode} and no decision")
    found: dict[str, Any] = json.loads((out / "decision.json").read_bytes())
    if not found["rows"]:
        raise SystemExit(found["summary"])
    return found, took


def manifests(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted(out.glob("*/manifest.json"))]


def tell_gate(plan: Plan, decision: dict[str, Any], took: float, out: Path, options: argparse.Namespace) -> None:
    """The table of the run: time, how it was spent, and what was found of what was seeded."""
    rows = {row["shape_id"]: row for row in decision["rows"]}
    measured = [row for row in rows.values() if row["ratio"] is not None]
    told = manifests(out)
    wall_s = sum(one["wall_s"] for one in told)
    held_s = sum(one["token_held_s"] for one in told)
    timed_s = sum(one["timed_gpu_s"] for one in told)
    gpus = max(len({machine["gpu"] for one in told for machine in one["machines"]}), 1)
    print(f"\ngate run: {decision['gate']}; {decision['summary']}")
    print(f"{'op':>24} {'shapes':>7} {'judged':>7} {'red':>4} {'open':>5} {'faster':>7} {'vs torch':>9}")
    for op in sorted({shape.op_type for shape in plan.shapes}):
        own = [rows[shape.shape_id] for shape in plan.shapes if shape.op_type == op]
        count = Counter(row["verdict"] for row in own)
        judged = sum(row["ratio"] is not None for row in own)
        speed = [math.log(row["speedup_vs_best"]) for row in own if row["speedup_vs_best"]]
        versus = f"{math.exp(sum(speed) / len(speed)):.2f}x" if speed else "-"
        cells = f"{count['regressed']:>4} {count['inconclusive']:>5} {count['improved']:>7} {versus:>9}"
        print(f"{op:>24} {len(own):>7} {judged:>7} {cells}")
    per = 100 / max(len(measured), 1)
    whole_s = max(wall_s, 1e-9) * gpus
    print(
        f"{len(measured)} of {len(plan.shapes)} shapes, 2 arms and {options.providers}: {took / 60:.2f} min wall with "
        f"start and reports, {wall_s / 60:.2f} min measuring on {gpus} GPU; held {held_s / whole_s:.0%}, "
        f"timed {timed_s / whole_s:.0%}"
    )
    print(f"per 100 shapes: {wall_s * per:.1f} s wall, {held_s * per:.1f} GPU s held, {timed_s * per:.2f} GPU s timed")
    tell_spent(out)
    red = {row["shape_id"] for row in rows.values() if row["verdict"] == "regressed"}
    ran = {row["shape_id"] for row in measured}
    seeded = set(plan.dials) & ran
    if options.seeded:
        found = f"found {len(red & seeded)}; red besides {len(red - seeded)}"
        print(f"seeded: {len(plan.dials)}, measured {len(seeded)}, {found}")
        for shape_id in plan.dials:
            row = rows[shape_id]
            share = f"{100 * (row['ratio'] - 1):+.2f}%" if row["ratio"] else "-"
            print(
                f"  {row['op_type']:>22} {row['base_us'] or 0:>9.2f} us, calibrated {plan.calibrated[shape_id]:+.1%}, "
                f"read {share:>8}, {row['verdict']} ({', '.join(row['reasons'])})"
            )
    else:
        print(f"identical arms: {len(red)} red of {len(measured)}")
    for shape_id in sorted(red - seeded):
        row = rows[shape_id]
        print(f"  false: {row['op_type']} {row['args']} {row['base_us']:.2f} us x{row['ratio']:.4f} {row['detail']}")


def tell_spent(out: Path) -> None:
    """Where the seconds of the shapes went, by command to the workers, over all lanes."""
    for path in sorted(out.glob("*/journal.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        records = [line for line in lines if "shape_id" in line]
        spent: Counter[str] = Counter()
        for record in records:
            spent.update(record["spent_s"])
        told = ", ".join(f"{name} {seconds / len(records):.3f}" for name, seconds in spent.most_common())
        print(f"{path.parent.name}: {len(records)} records; seconds of each: {told}")


def tell_shards(plan: Plan, out: Path, options: argparse.Namespace) -> None:
    """What all shapes of these ops would take on 1, 2, 4 and 8 runners, by the seconds that this run spent."""
    argv = [sys.executable, "-m", "gate", "shard", "plan", "--runners", "8", "--ledgers", str(plan.ledgers)]
    argv += ["--candidate", "triton", "--providers", options.providers, "--costs", str(out / "replay")]
    done = subprocess.run(
        [*argv, "--out", str(out / "plan.json")], cwd=ROOT, text=True, capture_output=True, check=False
    )
    lines = done.stderr.splitlines()
    print("\n".join([lines[0], lines[-1]] if lines else []), flush=True)


def compare(plan: Plan, *, until: float, rng: random.Random) -> None:
    """The usual methods on shapes of the same run, as many as time allows, the seeded ones first."""
    dialled = [shape for shape in plan.shapes if shape.shape_id in plan.dials]
    others = [shape for shape in plan.shapes if shape.shape_id not in plan.dials]
    # One of each in turn, so that a run that is cut short has both kinds.
    rng.shuffle(others)
    order = [shape for pair in zip(dialled, others, strict=False) for shape in pair] or others
    sides = {name: Side(f"usual-{name}") for name in ("head", "base")}
    spent: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    ratios: dict[str, list[tuple[bool, float]]] = {name: [] for name in OTHERS}
    count = 0
    for shape in order:
        if time.monotonic() > until:
            break
        try:
            times: dict[str, dict[str, float]] = {name: {} for name in OTHERS}
            for name, side in sides.items():
                side.ready(shape, budget_us=200.0)
                side.ask("dial", rounds=plan.dials.get(shape.shape_id, 0) if name == "head" else 0)
                for method in OTHERS:
                    reply = side.ask(method)
                    times[method][name] = reply["t_us"]
                    spent[method] += reply["gpu_ms"]
        except RuntimeError as error:
            refused[str(error)[:160]] += 1
            continue
        count += 1
        for method in OTHERS:
            ratios[method].append((shape.shape_id in plan.dials, times[method]["head"] / times[method]["base"]))
    for side in sides.values():
        side.link.close()
    for why, times_seen in refused.most_common(3):
        print(f"  {times_seen} shapes not compared: {why}")
    print(f"\nthe usual methods, two arms, {count} shapes of the same run, red when over {USUAL_LIMIT:g}:")
    heads = ("GPU s/100 shapes", "false red", "seeded found", "|ratio-1| median", "worst")
    print(
        f"{'method':>12} "
        + " ".join(f"{head:>{width}}" for head, width in zip(heads, (17, 10, 13, 17, 8), strict=True))
    )
    for method in OTHERS:
        same = [abs(ratio - 1) for seeded, ratio in ratios[method] if not seeded]
        false = sum(ratio > USUAL_LIMIT for seeded, ratio in ratios[method] if not seeded)
        found = sum(ratio > USUAL_LIMIT for seeded, ratio in ratios[method] if seeded)
        seeds = sum(seeded for seeded, _ in ratios[method])
        middle = sorted(same)[len(same) // 2] if same else float("nan")
        cost = spent[method] / 1e3 * 100 / max(count, 1)
        print(
            f"{method:>12} {cost:>17.1f} {f'{false}/{len(same)}':>10} {f'{found}/{seeds}':>13} {middle:>17.2%} "
            f"{max(same, default=float('nan')):>8.1%}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=140.0, help="for everything")
    parser.add_argument("--seeded", type=int, default=0)
    parser.add_argument("--slower", type=float, default=0.03)
    parser.add_argument("--shapes", type=int, default=0, help="so many shapes drawn from all ops; 0 for all")
    parser.add_argument("--op", nargs="*", default=[])
    parser.add_argument("--providers", default="pytorch")
    parser.add_argument("--gpus", default="1")
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-compare", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder that gets decision.json and the account of the run")
    options = parser.parse_args()
    began, rng = time.monotonic(), random.Random(options.seed)
    end = began + options.seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = make_plan(folder, options, rng)
        print(f"{len(plan.shapes)} shapes of {len({shape.op_type for shape in plan.shapes})} ops", flush=True)
        if options.seeded:
            half = began + 0.3 * options.seconds
            seed_shapes(plan, options.seeded, slower=options.slower, until=half, rng=rng)
            print(f"{len(plan.dials)} seeded after {time.monotonic() - began:.0f} s", flush=True)
        spare = 0.0 if options.no_compare else COMPARE_SHARE * options.seconds
        decision, took = run_gate(plan, folder, options, seconds=end - time.monotonic() - spare - 6)
        tell_gate(plan, decision, took, folder / "out", options)
        tell_shards(plan, folder / "out", options)
        sys.stdout.flush()
        if options.keep:
            keep(folder / "out", options.keep)
        if not options.no_compare:
            compare(plan, until=end - 2, rng=rng)
    print(f"\n{time.monotonic() - began:.0f} s in all", flush=True)
    return 0


def keep(out: Path, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name in ("decision.json", "part.json"):
        if (out / name).is_file():
            (place / name).write_bytes((out / name).read_bytes())
    (place / "manifests.json").write_bytes(msgspec.json.encode(manifests(out)))


if __name__ == "__main__":
    sys.exit(main())
