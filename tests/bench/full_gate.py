"""The whole gate on the frozen ledgers: identical arms or seeded slowdowns, beside the usual ways to time a kernel.

    python -m tests.bench.full_gate --seconds 140 [--seeded 20] [--shapes 150] [--gpus all]      (needs a GPU)
    python -m tests.bench.full_gate --seconds 900 --real --commit SHA --keep DIR

Head and base are the package's Triton kernels in processes of their own, with torch's as the baseline. With --seeded
so many random shapes of more than 1 us get a tail of dependent work in head's kernel, calibrated to +3%. With --real
the kernels are the package's own, without a dial, and the ledgers the frozen ones as they are, so that what --keep
keeps can become a baseline: `gate baseline record --from DIR/results --candidate triton --commit SHA`.

The run stops itself in time and tells what it has; then the same shapes are timed by the one-launch graph and by a
plain loop of triton.testing.do_bench, each side in a process of its own and held to the usual rule (more than 5% slower
is red). That begins when the gate has ended and has seconds of its own, so the whole may run over by some.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gate import store
from gate.model.shape import Shape
from gate.model.text import counted
from gate.resources import frozen_ledgers_dir
from tests.bench import gate_told, run_kills, usual_methods
from tests.bench.dial_search import Search
from tests.bench.replay_rig import ROOT
from tests.bench.usual_methods import DIALLED, Side
from tests.commands import timed_rig

LEAST_US = 1.0
COMPARE_SHARE, COMPARE_LEAST_S = 0.18, 20.0
# How long a run goes on after its --minutes, on average: shapes in work are finished, reports are written.
OVERRUN_S = 20.0
# What has no provider's name of its own takes that of one which no op has: torch.compile's kernels, and PyTorch's a
# second time, which costs what a second baseline costs where there is none.
PLACE = "ck"
BESIDE = {
    "pytorch_compiled": "gate.replay.providers.pytorch_compiled",
    "pytorch_again": "gate.replay.providers.pytorch",
}


@dataclass(slots=True, kw_only=True)
class Plan:
    """What is measured: the ledgers, the shapes, what only this run's commands need, and each seeded one's dial."""

    ledgers: Path
    shapes: list[Shape]
    candidate: str = "triton"
    providers: str = "pytorch"
    more: tuple[str, ...] = ()
    dials: dict[str, int] = field(default_factory=dict)
    calibrated: dict[str, float] = field(default_factory=dict)


def make_plan(folder: Path, options: argparse.Namespace, rng: random.Random) -> Plan:
    """The shapes, or a sample of them, with the ledgers that they are in: made for the run, or with --real frozen."""
    if options.simulate:
        return simulated(folder, options)
    providers = options.providers.split(",")
    beside = next((BESIDE[name] for name in providers if name in BESIDE), None)
    as_they_are = options.real and beside is None
    root = frozen_ledgers_dir() if as_they_are else folder / "ledgers"
    shapes: list[Shape] = []
    for source in sorted(frozen_ledgers_dir().glob(f"*/{store.MATRIX_FILE}")):
        matrix = yaml.safe_load(source.read_text())
        wanted = not options.op or matrix["op_type"] in options.op
        if not (wanted and matrix["providers"].get("triton", {}).get("enabled")):
            continue
        ledger = store.read_ledger(source.parent / store.LEDGER_FILE).shapes
        shapes += ledger
        if not as_they_are:
            target = root / source.parent.name
            store.write_jsonl(target / store.LEDGER_FILE, ledger)
            made = made_matrix(matrix, real=options.real, beside=beside)
            store.write_text(target / store.MATRIX_FILE, yaml.safe_dump(made, sort_keys=False))
    if options.shapes:
        picked = set(rng.sample(range(len(shapes)), min(options.shapes, len(shapes))))
        shapes = [shape for number, shape in enumerate(shapes) if number in picked]
    if not as_they_are:
        subprocess.run([sys.executable, "-m", "gate", "ledger", "freeze", str(root)], check=True, stdout=-3)
    names = [PLACE if name in BESIDE else name for name in providers]
    return Plan(ledgers=root, shapes=shapes, providers=",".join(names))


def made_matrix(matrix: dict[str, Any], *, real: bool, beside: str | None) -> dict[str, Any]:
    """A frozen matrix with dialled kernels in Triton's place unless `real`, and those of module `beside` beside
    PyTorch's."""
    providers = dict(matrix["providers"])
    if not real:
        providers["triton"] = {**providers["triton"], "entrypoint": DIALLED}
    made = {**matrix, "providers": providers}
    if beside is not None and providers.get("pytorch", {}).get("enabled"):
        providers[PLACE] = {
            "enabled": True,
            "entrypoint": f"{beside}:{matrix['op_type']}",
            "provider": PLACE,
            "notes": f"{beside}, under a provider's name that this op does not use",
        }
        if "baseline_set" in matrix:
            made["baseline_set"] = [*matrix["baseline_set"], PLACE]
    return made


def simulated(folder: Path, options: argparse.Namespace) -> Plan:
    """Six shapes of the simulated GPU, to try this script without one."""
    root = run_kills.prepare(folder)
    shapes = [row for path in sorted(root.glob(f"*/{store.LEDGER_FILE}")) for row in store.read_ledger(path).shapes]
    more = ("--op-from", f"{timed_rig.KERNELS}:OP", "--simulate", options.simulate, "--budget-us", "200")
    return Plan(ledgers=root, shapes=shapes, candidate="flydsl", providers="triton", more=more)


def seed_shapes(plan: Plan, count: int, *, slower: float, until: float, rng: random.Random) -> None:
    """Turns the dial of `count` random shapes to about `slower`; those below 1 us, or that do not run, are passed."""
    side = Side("calibrate")
    side.hello()
    order = rng.sample(plan.shapes, len(plan.shapes))
    try:
        while order and len(plan.dials) < count and time.monotonic() < until:
            shape = order.pop()
            try:
                side.captured(side.opened(shape, DIALLED), budget_us=500.0)
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
    search = Search(lambda rounds: side.ask("dial", rounds=rounds)["t_us"] / base - 1)
    search.reach(slower, first=8, factor=3, limit=1 << 18)
    best = search.near(slower, tries=5, enough=0.05)
    return (best, search.seen[best]) if 0.7 * slower < search.seen[best] < 1.5 * slower else None


def arm(options: argparse.Namespace, *more: str) -> str:
    """The SPEC of an arm: this clone, under the commit that was given."""
    return ",".join([f"path={ROOT}", *([f"commit={options.commit}"] if options.commit else []), *more])


def run_gate(plan: Plan, folder: Path, options: argparse.Namespace, *, seconds: float) -> tuple[dict[str, Any], float]:
    """decision.json of the whole job, and the seconds it took; it is told to measure for `seconds`."""
    out, ids, dials = folder / "out", folder / "shapes.txt", folder / "dials.json"
    ids.write_text("".join(f"{shape.shape_id}\n" for shape in plan.shapes))
    dials.write_text(json.dumps(plan.dials))
    argv = [sys.executable, "-m", "gate", "run", "--replay", "--ledgers", str(plan.ledgers), "--out", str(out)]
    argv += ["--candidate", plan.candidate, "--providers", plan.providers, "--shapes-from", str(ids), "--no-code"]
    head = arm(options) if options.real or plan.more else arm(options, f"env=DIAL_TABLE:{dials}")
    argv += ["--head", head, "--base", arm(options), "--gpus", options.gpus, "--lanes", str(options.lanes)]
    argv += ["--minutes", f"{max(seconds, 5) / 60:.3f}", "--seed", str(options.seed), *plan.more]
    argv += ["--budget-us", str(options.budget_us)] if options.budget_us else []
    began = time.monotonic()
    with subprocess.Popen(argv, cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        gate_told.follow(process, began)
    took = time.monotonic() - began
    if not (out / "decision.json").is_file():
        raise SystemExit(f"gate run ended with {process.returncode} and no decision")
    found: dict[str, Any] = json.loads((out / "decision.json").read_bytes())
    if not found["rows"]:
        raise SystemExit(found["summary"])
    return found, took


def compare_seconds(options: argparse.Namespace) -> float:
    """The seconds of the usual methods: theirs alone, from when the gate has ended."""
    if options.no_compare or options.simulate:
        return 0.0
    return max(COMPARE_SHARE * float(options.seconds), COMPARE_LEAST_S)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; of the command line without `argv`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=140.0, help="for everything, on average")
    parser.add_argument("--seeded", type=int, default=0)
    parser.add_argument("--slower", type=float, default=0.03)
    parser.add_argument("--shapes", type=int, default=0, help="so many shapes drawn from all ops; 0 for all")
    parser.add_argument("--op", nargs="*", default=[])
    parser.add_argument("--providers", default="pytorch", help=f"joined with commas; besides: {', '.join(BESIDE)}")
    parser.add_argument("--gpus", default="1")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget-us", type=float, help="device work of one graph, unless the gate's own")
    parser.add_argument("--real", action="store_true", help="the package's own kernels and ledgers, without a dial")
    parser.add_argument("--commit", help="what head and base say they are of; --keep without it makes no baseline")
    parser.add_argument("--no-compare", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder that gets what the run wrote, without samples and logs")
    parser.add_argument("--simulate", metavar="OPTIONS", help="try it on the simulated GPU and its ledgers")
    options = parser.parse_args(argv)
    if options.seeded and (options.real or options.simulate):
        parser.error("--seeded needs the dial: neither --real nor --simulate")
    return options


def main() -> int:
    options = arguments()
    began, rng = time.monotonic(), random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = make_plan(folder, options, rng)
        ops = {shape.op_type for shape in plan.shapes}
        print(f"{counted(len(plan.shapes), 'shape')} of {counted(len(ops), 'op')}", flush=True)
        for beside in sorted(set(options.providers.split(",")) & set(BESIDE)):
            print(f"{PLACE} stands for {beside}: {BESIDE[beside]}", flush=True)
        if options.seeded:
            until = began + 0.3 * options.seconds
            seed_shapes(plan, options.seeded, slower=options.slower, until=until, rng=rng)
            print(f"{len(plan.dials)} seeded after {time.monotonic() - began:.0f} s", flush=True)
        spare = compare_seconds(options)
        left = began + options.seconds - time.monotonic()
        out = folder / "out"
        try:
            decision, took = run_gate(plan, folder, options, seconds=left - spare - OVERRUN_S)
        finally:
            # Of a run that broke off, too.
            if options.keep and out.is_dir():
                print(gate_told.keep(out, options.keep), flush=True)
        gate_told.tell(plan, decision, took, out, seeded=bool(options.seeded))
        if spare:
            usual_methods.run(plan.shapes, plan.dials, real=options.real, seconds=spare, rng=rng)
    print(f"\n{time.monotonic() - began:.0f} s in all", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(gate_told.ended(main))
