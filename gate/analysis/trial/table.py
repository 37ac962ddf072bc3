"""The trial: identical commits for false alarms, slowed rows for power, every rule on the same source of noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from gate.analysis.estimate import strata
from gate.analysis.student import Floats
from gate.analysis.trial.kernels import KernelPower, each_kernel
from gate.analysis.trial.others import HISTORY, OTHERS, SAMPLES, Other, Seen
from gate.analysis.trial.ours import judge_commit
from gate.analysis.trial.source import Source
from gate.model.policy import Policy

STRATUM_NAMES = ("< 2.5 us", "2.5-5 us", "5-10 us", "10-50 us", "> 50 us")
OURS = "gate: looks, then confirmation"
# One replay of the usual method: flush the cache, then one launch (microseconds besides the kernel).
REPLAY_US = 100.0
POWER = 0.90


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """One rule in one trial.

    `red_commits` of `commits` identical ones had a flag; `interval` is the 95% Clopper-Pearson interval of that rate.
    `found` and `tried` count slowed rows by factor and stratum; `unjudged_rows` is per identical commit.
    """

    rule: str
    commits: int
    red_commits: int
    interval: tuple[float, float]
    false_flags: int
    unjudged_rows: float
    gpu_seconds: float
    found: dict[str, tuple[int, ...]]
    tried: dict[str, tuple[int, ...]]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """All rules on one source; `mde` is each rule's smallest tried slowdown found with 90% power, by stratum;
    `kernels` how often ours found every single kernel, where that was tried."""

    source: str
    rows: int
    rows_by_stratum: tuple[int, ...]
    commits: int
    power_commits: int
    results: tuple[RuleResult, ...]
    mde: dict[str, tuple[float | None, ...]]
    kernels: KernelPower | None = None


class _Tally:
    """Counts of one rule while the trial runs."""

    def __init__(self) -> None:
        self.red = self.flags = self.open = 0
        self.seconds = 0.0
        self.found: dict[float, list[int]] = {}
        self.tried: dict[float, list[int]] = {}


def run(
    source: Source,
    policy: Policy,
    *,
    commits: int,
    power_commits: int,
    factors: Sequence[float],
    visit_ms: float,
    seed: int,
    kernel_tries: int = 0,
    progress: Callable[[str], None] = lambda item: None,
) -> Trial:
    """Tries every rule on `commits` identical commits and, per factor, `power_commits` with slowed rows.

    With `kernel_tries`, every kernel is slowed so many times by the smallest factor, and judged by our rule alone.
    """
    places = np.array(strata(source.times_us.tolist(), policy))
    tallies = {name: _Tally() for name in (OURS, *(other.name for other in OTHERS))}
    for index in range(commits):
        _identical(source, policy, tallies, visit_ms=visit_ms, rng=np.random.default_rng([seed, 2, index]))
        progress("identical commit")
    for number, factor in enumerate(factors):
        for index in range(power_commits):
            rng = np.random.default_rng([seed, 3, number, index])
            _slowed(source, policy, tallies, places=places, factor=factor, rng=rng)
            progress(f"slowdown of {factor - 1:.0%}")
    results = tuple(_result(name, tally, commits) for name, tally in tallies.items())
    kernels = None
    if kernel_tries:
        kernels = each_kernel(source, policy, factor=min(factors), tries=kernel_tries, seed=seed, progress=progress)
    return Trial(
        source=source.name,
        rows=len(places),
        rows_by_stratum=tuple(int(np.count_nonzero(places == place)) for place in range(len(STRATUM_NAMES))),
        commits=commits,
        power_commits=power_commits,
        results=results,
        mde={result.rule: _mde(result, factors) for result in results},
        kernels=kernels,
    )


def _identical(
    source: Source, policy: Policy, tallies: Mapping[str, _Tally], *, visit_ms: float, rng: np.random.Generator
) -> None:
    judged = judge_commit(source, policy, slowed={}, rng=rng)
    ours = tallies[OURS]
    ours.red += bool(judged.red)
    ours.flags += len(judged.red)
    ours.open += len(judged.open)
    least = source.times_us / 1000
    ours.seconds += sum(max(visit_ms, least[row]) * count for row, count in judged.visits.items()) / 1000
    seen = see(source, rng, {})
    for other in OTHERS:
        flags, tally = other.flags(seen), tallies[other.name]
        tally.red += bool(flags.any())
        tally.flags += int(flags.sum())
        tally.seconds += _one_launch_seconds(source, other)


def _one_launch_seconds(source: Source, other: Other) -> float:
    return float(other.runs * SAMPLES * (source.times_us + REPLAY_US).sum() / 1e6)


def _slowed(
    source: Source,
    policy: Policy,
    tallies: Mapping[str, _Tally],
    *,
    places: np.ndarray[tuple[int], np.dtype[np.int64]],
    factor: float,
    rng: np.random.Generator,
) -> None:
    """One slowed row per stratum that has any."""
    chosen = [
        int(rng.choice(rows)) for place in range(len(STRATUM_NAMES)) if len(rows := np.flatnonzero(places == place))
    ]
    slowed = dict.fromkeys(chosen, factor)
    red = judge_commit(source, policy, slowed=slowed, rng=rng).red
    _count(tallies[OURS], factor, places, chosen, red)
    seen = see(source, rng, slowed)
    for other in OTHERS:
        _count(tallies[other.name], factor, places, chosen, set(np.flatnonzero(other.flags(seen)).tolist()))


def _count(
    tally: _Tally,
    factor: float,
    places: np.ndarray[tuple[int], np.dtype[np.int64]],
    chosen: Sequence[int],
    red: frozenset[int] | set[int],
) -> None:
    found = tally.found.setdefault(factor, [0] * len(STRATUM_NAMES))
    tried = tally.tried.setdefault(factor, [0] * len(STRATUM_NAMES))
    for row in chosen:
        tried[places[row]] += 1
        found[places[row]] += row in red


def see(source: Source, rng: np.random.Generator, slowed: Mapping[int, float]) -> Seen:
    """What the other rules see of one commit: one process each for base, head and base again, and earlier medians."""
    n = len(source.times_us)
    base, head, again = (np.empty((n, SAMPLES)) for _ in range(3))
    history = np.empty((n, HISTORY))
    for row in range(n):
        first, second = source.draw(rng, row, [SAMPLES]), source.draw(rng, row, [SAMPLES])
        base[row], again[row] = first.base.ravel()[:SAMPLES], second.base.ravel()[:SAMPLES]
        head[row] = first.head.ravel()[:SAMPLES] + math.log(slowed.get(row, 1.0))
        past = source.draw(rng, row, [2] * HISTORY)
        history[row] = np.median(past.base.reshape(HISTORY, -1), axis=1)
    return Seen(base=np.exp(base), head=np.exp(head), again=np.exp(again), history=np.exp(history))


def _result(name: str, tally: _Tally, commits: int) -> RuleResult:
    return RuleResult(
        rule=name,
        commits=commits,
        red_commits=tally.red,
        interval=clopper_pearson(tally.red, commits),
        false_flags=tally.flags,
        unjudged_rows=tally.open / commits if commits else 0.0,
        gpu_seconds=tally.seconds / commits if commits else 0.0,
        found={f"{factor:g}": tuple(counts) for factor, counts in tally.found.items()},
        tried={f"{factor:g}": tuple(counts) for factor, counts in tally.tried.items()},
    )


def clopper_pearson(hits: int, n: int) -> tuple[float, float]:
    """The exact 95% interval of a rate (Clopper and Pearson 1934)."""
    from scipy import special

    if n == 0:
        return 0.0, 1.0
    tail = 0.05 / 2
    low = float(special.betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(special.betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high


def power(result: RuleResult, factor: float) -> Floats:
    """The share of slowed rows found, by stratum; NaN where none was tried."""
    found, tried = np.array(result.found[f"{factor:g}"]), np.array(result.tried[f"{factor:g}"])
    with np.errstate(invalid="ignore"):
        share: Floats = found / tried
    return share


def _mde(result: RuleResult, factors: Sequence[float]) -> tuple[float | None, ...]:
    shares = [(factor, power(result, factor)) for factor in sorted(factors)]
    return tuple(
        next((factor - 1 for factor, share in shares if share[place] >= POWER), None)
        for place in range(len(STRATUM_NAMES))
    )
