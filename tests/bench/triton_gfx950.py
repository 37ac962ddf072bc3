"""Compiles the Triton baseline of every frozen shape for gfx950, one compile per key; prints op by op what came out.

    python tests/bench/triton_gfx950.py [--op OP ...] [--jobs N] [--arch gfx950]

Needs an interpreter with Triton and torch (a build for the CPU will do); no GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from gate import replay, store
from gate.codegen import triton_cases
from gate.codegen.compile import compile_cases
from gate.codegen.keys import CompileCase, unique_cases
from gate.codegen.toolchains import find_triton
from gate.resources import frozen_ledgers_dir

ENGINE = Path(replay.__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--op", action="append")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--arch", default="gfx950")
    options = parser.parse_args()
    tools = find_triton(python=sys.executable, kernels=ENGINE, arch=options.arch)
    ops = options.op or sorted(path.name for path in frozen_ledgers_dir().iterdir() if path.is_dir())
    print(f"{'op':<36}{'shapes':>7}{'keys':>6}{'ok':>6}{'other':>6}{'spill':>6}{'s':>7}  reason")
    worst = 0
    for op in ops:
        started = time.perf_counter()
        shapes = store.read_ledger(frozen_ledgers_dir() / op / store.LEDGER_FILE).shapes
        found = [triton_cases.compile_case(shape) for shape in shapes]
        cases = unique_cases([case for case in found if isinstance(case, CompileCase)])
        with tempfile.TemporaryDirectory() as cache:
            records = compile_cases(
                cases, kernels_dir=ENGINE, toolchain=tools, cache_dir=Path(cache), jobs=options.jobs, timeout_s=300
            )
        good = [record for record in records if record.status == "ok"]
        spills = sum(1 for record in good if record.metrics is not None and record.metrics.vgpr_spills)
        reasons = Counter(f"{one.status}: {one.error}" for one in records if one.status != "ok").most_common(2)
        told = "; ".join(f"{count} x {reason[:110]}" for reason, count in reasons)
        seconds = time.perf_counter() - started
        bad = len(records) - len(good)
        print(f"{op:<36}{len(shapes):>7}{len(cases):>6}{len(good):>6}{bad:>6}{spills:>6}{seconds:>7.1f}  {told}")
        worst |= any(record.status == "failed" for record in records)
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
