"""How long a profiler's trace takes to become a diagnosis, by its size: a table.

python -m tests.bench.profile_sizes [--rows 1000 100000]
"""

from __future__ import annotations

import argparse
import resource
import time

from gate.profiling import rocprof_csv, rocprof_json
from gate.profiling.diagnose import Subject, diagnose
from tests.profiling.traces import as_csv, as_json, row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 100_000])
    print("| dispatches | format | MB | seconds |")
    print("|--:|---|--:|--:|")
    for count in parser.parse_args().rows:
        rows = [row(index, ("rmsnorm_0", "quant_1")[index % 2], 5.0 + index % 7) for index in range(count)]
        for name, text in (("CSV", as_csv(rows)), ("JSON", as_json(rows))):
            read = rocprof_csv.kernel_trace if name == "CSV" else rocprof_json.results
            started = time.perf_counter()
            found = diagnose(read(text, file="trace"), Subject(arch="gfx950"))
            seconds = time.perf_counter() - started
            assert found.dispatches == count and found.dispatches_per_call == 2
            print(f"| {count} | {name} | {len(text) / 1e6:.1f} | {seconds:.2f} |", flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


if __name__ == "__main__":
    main()
