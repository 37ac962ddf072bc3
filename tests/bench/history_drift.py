"""Slow drift, found by which check at which run, and how often flat histories raise a false alarm.

    python -m tests.bench.history_drift [--series 200]

Drift: 40 flat runs, then 20 runs that each add a step. Each run is judged beside its own base in one session (the
judge), held against the release that was pinned after the flat runs (release pin), and put into the series of its
row (change point, which may only look back). Times and noise are simulated.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gate.analysis.drift import drift, sentences
from gate.history.changes import noise, splits
from gate.model.policy import Policy
from tests.analysis import build

LEDGER = build.ledger(16)
FLAT, STEPS = 40, 20
MATRIX, POLICY = build.matrix(), Policy()
ROW = 5
Logs = NDArray[np.float64]
# Relative noise of one run: slope times of an H200, and heavy tails as public one-launch MI350X results have them
# (|ratio - 1| of equal code: p50 0.93%, p90 4%, p99 10.7%).
NOISES: dict[str, Callable[[Generator, int], Logs]] = {
    "H200 slope, 0.3%": lambda rng, n: rng.normal(0, 0.003, n),
    "1%": lambda rng, n: rng.normal(0, 0.01, n),
    "MI350X one launch": lambda rng, n: rng.standard_t(2, n) * 0.0093 / 0.816 / math.sqrt(2),
    "disturbed runs": lambda rng, n: rng.normal(0, 0.003, n) + (rng.random(n) < 0.03) * rng.normal(0.05, 0.03, n),
}


def night(number: int, factors: Mapping[int, float], **how: Any) -> Any:
    return build.run(LEDGER, seed=number, factors=factors, session_id=f"night-{number}", **how)


def factors(step: float, times: int, rows: range) -> dict[int, float]:
    return dict.fromkeys(rows, step**times)


def drifting(step: float, rows: range, *, seed: int, session_sd: float) -> dict[str, int | None]:
    """The first drifting run that each check finds; None if none."""
    rng = np.random.default_rng(seed)
    release = night(seed * 1000, {})
    logs = list(rng.normal(0, session_sd, FLAT))
    found: dict[str, int | None] = {"judge": None, "release pin": None, "change point": None}
    for run in range(1, STEPS + 1):
        number = seed * 1000 + run
        # The whole machine is a little faster or slower in each session; the controls move with it.
        machine = math.exp(rng.normal(0, session_sd))
        base = night(number, factors(step, run - 1, rows), every=machine)
        head = night(number + 500, factors(step, run, rows), every=machine)
        head = type(head)(outcomes=tuple(_same_session(one, number) for one in head.outcomes))
        if found["judge"] is None and build.decide(LEDGER, base, head).gate == "block":
            found["judge"] = run
        if found["release pin"] is None and sentences(
            drift(LEDGER, MATRIX, release=release, head=head, policy=POLICY), "pinned"
        ):
            found["release pin"] = run
        logs.append(run * math.log(step) + rng.normal(0, session_sd))
        if found["change point"] is None and splits(np.array(logs)):
            found["change point"] = run
    return found


def _same_session(outcome: Any, number: int) -> Any:
    from msgspec.structs import replace

    return replace(outcome, session_id=f"night-{number}")


def drift_table(tries: int) -> None:
    print(f"{STEPS} steps after {FLAT} flat runs, {tries} histories each: the first run that is found, median (last)\n")
    print("| drift | judge, run by run | release pin | change point |\n|---|--:|--:|--:|")
    cases = {
        "one row +1% a run": (1.01, range(ROW, ROW + 1)),
        "all rows +0.3% a run": (1.003, range(16)),
        "all rows +1% a run": (1.01, range(16)),
    }
    for name, (step, rows) in cases.items():
        found = [drifting(step, rows, seed=seed, session_sd=0.003) for seed in range(1, tries + 1)]
        print(f"| {name} | {' | '.join(_runs([one[check] for one in found]) for check in found[0])} |", flush=True)


def _runs(found: list[int | None]) -> str:
    known = sorted(run for run in found if run is not None)
    if len(known) < len(found) / 2:
        return f"not in {STEPS} runs" + (f" ({len(known)} of {len(found)})" if known else "")
    missed = f", {len(found) - len(known)} not" if len(known) < len(found) else ""
    return f"{known[len(known) // 2]} ({known[-1]}{missed})"


def flat_table(series: int) -> None:
    print(f"\n{series} flat series of 120 runs; a step of +5% at run 100 of 120; false alarms, found, median delay\n")
    print("| noise | change points | noise limit, runs beyond it | +5% found | after runs |\n|---|--:|--:|--:|--:|")
    for name, make in NOISES.items():
        rng = np.random.default_rng(11)
        alarms = beyond = 0
        for _ in range(series):
            logs = make(rng, 120)
            alarms += bool(splits(logs))
            limit = noise(logs[:-1]).limit
            beyond += limit is not None and abs(math.expm1(abs(logs[-1] - logs[-2]))) > limit
        delays = [_delay(make(rng, 120)) for _ in range(series)]
        known = sorted(delay for delay in delays if delay is not None)
        print(
            f"| {name} | {alarms} of {series} | {beyond} of {series} | {len(known)} of {series} | "
            f"{known[len(known) // 2] if known else 'none'} |",
            flush=True,
        )


def _delay(logs: Logs, *, at: int = 100) -> int | None:
    logs = logs.copy()
    logs[at:] += math.log(1.05)
    return next((run for run in range(1, len(logs) - at + 1) if splits(logs[: at + run])), None)


def pin_table(sessions: int) -> None:
    """The release pin over flat sessions: how often it says drift where there is none."""
    print(
        f"\n{sessions} flat sessions against a pinned release, 16 rows, machine 1% up or down; sessions said to drift\n"
    )
    print("| noise of a visit | said to drift |\n|---|--:|")
    for noise_sd in (0.002, 0.005, 0.01):
        release = night(1, {}, noise=noise_sd)
        rng = np.random.default_rng(5)
        alarms = 0
        for number in range(sessions):
            head = night(number + 10, {}, noise=noise_sd, every=math.exp(rng.normal(0, 0.01)))
            alarms += bool(sentences(drift(LEDGER, MATRIX, release=release, head=head, policy=POLICY), "pinned"))
        print(f"| {100 * noise_sd:g}% | {alarms} of {sessions} |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--series", type=int, default=200)
    options.add_argument("--tries", type=int, default=10)
    given = options.parse_args()
    drift_table(given.tries)
    flat_table(given.series)
    pin_table(given.series)


if __name__ == "__main__":
    main()
