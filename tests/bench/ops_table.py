"""Every op on the GPU at hand, Triton against PyTorch: how many frozen shapes are right, what fails and why, geomeans.

    python tests/bench/ops_table.py --seconds 140 --ops gemm,softmax --out ops.jsonl

One process; a shape of an op is checked on graph output against the fp32 reference in a ring of two copies, and every
n-th one is also timed by the engine's slope over a cold ring (a few visits, the arms in turn: a survey, not a verdict).
Kernels are compiled beforehand in processes of their own. An op that runs out of its share of the seconds says so.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gate import store
from gate.commands.replay_inputs import case_of
from gate.model.text import counted
from gate.replay.cell import Cell
from gate.replay.op import Case, UnknownOp, load_op
from gate.replay.provider import NoKernel, ProviderAdapter, load_entrypoint
from gate.replay.timer import RingPlan, plan_ring, visit_slope
from gate.resources import frozen_ledgers_dir

PROVIDERS = ("triton", "pytorch")
FEW_ROWS, SOME_ROWS = 64, 512
VISITS = 3
BUDGET_US = 500.0
CHECKED = RingPlan(copies=2, launches=3, flush=False, cache_state="hot", budget_us=0.0)


def adapter_of(provider: str, op: str) -> ProviderAdapter:
    """The provider's kernel for the op. Raises NoKernel."""
    return load_entrypoint(f"gate.replay.providers.{provider}:{op}", op)


def compile_case(case: Case) -> str | None:
    """Fills Triton's cache; what went wrong, or None."""
    try:
        adapter = adapter_of("triton", case.op_type)
        if load_op(case.op_type).refusal(case) is None and adapter.supports(case) is None:
            adapter.compile(case)
    except Exception as error:  # noqa: BLE001 - the shape's row says it again
        return first_line(error)
    return None


def representatives(cases: Sequence[Case]) -> list[Case]:
    """One case for each op, dtype and power of two of rows: together they compile almost everything."""
    found: dict[tuple[Any, ...], Case] = {}
    for case in cases:
        rows = row_count(case)
        routing = (case.args.get("E"), case.args.get("TopK"))
        found.setdefault((case.op_type, case.dtype, min(rows.bit_length() if rows > 1 else 0, 11), routing), case)
    return list(found.values())


def first_line(error: BaseException) -> str:
    """An error in one line, its cause's last one."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines or [''])[-1]}"[:300]


def row_count(case: Case) -> int:
    """Rows or tokens of the shape."""
    return next((int(case.args[name]) for name in ("M", "num_tokens", "seq_q") if name in case.args), 0)


def rows_of(case: Case) -> str:
    """The class of the shape by its rows or tokens."""
    rows = row_count(case)
    return "few" if rows <= FEW_ROWS else "some" if rows <= SOME_ROWS else "many"


class Bench:
    """One GPU, and what has been seen on it."""

    def __init__(self, seed: int) -> None:
        from gate.replay.device_torch import TorchDevice

        self.device, self.seed = TorchDevice(), seed
        self.rows: list[dict[str, Any]] = []

    def cell(self, provider: str, case: Case) -> tuple[Cell | None, dict[str, Any]]:
        """A checked cell, or None with the row that says why there is none."""
        row = {"op": case.op_type, "provider": provider, "dtype": case.dtype, "class": rows_of(case)}
        row |= {"args": dict(case.args)}
        try:
            op, adapter = load_op(case.op_type), adapter_of(provider, case.op_type)
            refusal = op.refusal(case) or adapter.supports(case)
            if refusal is not None:
                return None, row | {"status": "unsupported", "reason": refusal}
            cell = Cell(device=self.device, adapter=adapter, op=op, case=case, seed=self.seed)
            row["detail"] = adapter.describe(case)
            cell.build(CHECKED)
            return cell, row | self.check(cell)
        except (NoKernel, UnknownOp) as error:
            return None, row | {"status": "unsupported", "reason": first_line(error)}
        except Exception as error:  # noqa: BLE001 - any failure is a row
            return None, row | {"status": "failed", "reason": first_line(error)}

    def check(self, cell: Cell) -> dict[str, Any]:
        """The values of a replayed graph against the reference."""
        cell.capture()
        cell.outputs.poison()
        self.device.replay(cell.graphs[0])
        findings, largest = cell.outputs.judge(range(len(cell.states)))
        if findings:
            return {"status": findings[0].status, "reason": findings[0].text}
        return {"status": "ok", "max_abs": largest}

    def shape(self, case: Case, *, timed: bool) -> None:
        """Checks one shape with every provider, and times those that are right."""
        found = []
        for provider in PROVIDERS:
            started = time.perf_counter()
            cell, row = self.cell(provider, case)
            if cell is not None:
                cell.release()
            row["check_s"] = round(time.perf_counter() - started, 2)
            self.rows.append(row)
            if cell is not None and row["status"] == "ok":
                found.append((cell, row))
        if timed and len(found) == len(PROVIDERS):
            self.time(found)
        self.device.trim()

    def time(self, found: Sequence[tuple[Cell, dict[str, Any]]]) -> None:
        """Cold-ring times of the cells, in turn."""
        try:
            for cell, _ in found:
                pilot = cell.pilot()
                plan = plan_ring(
                    footprint_bytes=int(pilot["footprint_bytes"]),
                    estimate_us=pilot["estimate_us"],
                    chip=self.device.facts.chip,
                    free_bytes=self.device.free_bytes(),
                    budget_us=BUDGET_US,
                )
                cell.build(plan)
                cell.capture()
            times: dict[int, list[float]] = defaultdict(list)
            for _ in range(VISITS):
                for place, (cell, _) in enumerate(found):
                    assert cell.plan is not None
                    visit = visit_slope(self.device, full=cell.graphs[0], single=cell.graphs[1], plan=cell.plan)
                    times[place].append(visit.t_us)
            for place, (_, row) in enumerate(found):
                row["t_us"] = statistics.median(times[place])
        except Exception as error:  # noqa: BLE001 - any failure is a row
            for _, row in found:
                row["timing"] = first_line(error)
        finally:
            for cell, _ in found:
                cell.release()


def cases_of(op: str, seed: int) -> list[Case]:
    """The op's frozen shapes in an order without pattern, so that a part of them stands for all."""
    shapes = store.read_ledger(frozen_ledgers_dir() / op / store.LEDGER_FILE).shapes
    cases = [case_of(shape) for shape in shapes]
    random.Random(seed).shuffle(cases)
    return cases


def summary(rows: Sequence[dict[str, Any]], ops: Sequence[str], left: Counter[str]) -> Iterator[str]:
    """The table, then the failures."""
    yield f"{'op':28} {'provider':8} {'ok':>4} {'wrong':>5} {'unsup':>5} {'fail':>4}   torch / triton, geomean (shapes)"
    for op in ops:
        for provider in PROVIDERS:
            own = [row for row in rows if row["op"] == op and row["provider"] == provider]
            counts = Counter(row["status"] for row in own)
            known = [counts[name] for name in ("ok", "incorrect", "unsupported", "failed")]
            ratios = ratio_text(rows, op) if provider == PROVIDERS[0] else ""
            yield f"{op:28} {provider:8} {known[0]:4} {known[1]:5} {known[2]:5} {known[3]:4}   {ratios}"
        if left[op]:
            yield f"{op:28} {counted(left[op], 'shape')} not reached in time"
    reasons = Counter((r["op"], r["provider"], r["dtype"], r["reason"][:160]) for r in rows if r["status"] != "ok")
    for (op, provider, dtype, reason), count in sorted(reasons.items()):
        yield f"{count:4} x {op} {provider} {dtype}: {reason}"


def ratio_text(rows: Sequence[dict[str, Any]], op: str) -> str:
    """Geomeans of PyTorch's time over Triton's, by dtype and class of rows."""
    times: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["op"] == op and "t_us" in row:
            key = json.dumps([row["dtype"], row["class"], row["args"]], sort_keys=True)
            times[key][row["provider"]] = row["t_us"]
    groups: dict[str, list[float]] = defaultdict(list)
    for key, pair in times.items():
        dtype, kind, _ = json.loads(key)
        groups[f"{dtype} {kind}"].append(pair["pytorch"] / pair["triton"])
        groups["all"].append(pair["pytorch"] / pair["triton"])
    means = {name: math.exp(statistics.fmean(map(math.log, values))) for name, values in groups.items()}
    return ", ".join(f"{name} {means[name]:.2f} ({len(groups[name])})" for name in sorted(means))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default="", help="names, comma separated; all that have a ledger without it")
    parser.add_argument("--seconds", type=float, default=140.0)
    parser.add_argument("--every", type=int, default=4, help="time every n-th shape; 0 for none")
    parser.add_argument("--limit", type=int, default=10_000, help="most shapes of an op")
    parser.add_argument("--jobs", type=int, default=12, help="processes that compile beforehand; 0 for none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="every row as a line of JSON")
    options = parser.parse_args()
    started = time.monotonic()
    ops = options.ops.split(",") if options.ops else sorted(p.parent.name for p in ledgers())
    todo = {op: cases_of(op, options.seed)[: options.limit] for op in ops}
    if options.jobs:
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            list(pool.map(compile_case, representatives([case for cases in todo.values() for case in cases])))
        print(f"compiled after {time.monotonic() - started:.0f} s", flush=True)
    bench, left = Bench(options.seed), Counter[str]()
    for number, op in enumerate(ops):
        remaining = options.seconds - (time.monotonic() - started)
        end = time.monotonic() + remaining / (len(ops) - number)
        for index, case in enumerate(todo[op]):
            if time.monotonic() > end:
                left[op] = len(todo[op]) - index
                break
            bench.shape(case, timed=bool(options.every) and index % options.every == 0)
    if options.out:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in bench.rows), encoding="utf-8")
    print("\n".join(summary(bench.rows, ops, left)))
    print(f"{time.monotonic() - started:.0f} s")
    return 0


def ledgers() -> list[Path]:
    """The ledgers at hand."""
    return sorted(frozen_ledgers_dir().glob(f"*/{store.LEDGER_FILE}"))


if __name__ == "__main__":
    sys.exit(main())
