"""Where a trial's measurements come from: recorded A/A sessions, or a simulator with published noise figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np

from gate.analysis.student import Floats
from gate.model.outcome import AnyOutcome, Results

VISITS = 2


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """Log times of one row: base and head, each (blocks, visits), and the process of each block."""

    base: Floats
    head: Floats
    process: tuple[int, ...]


class Source(Protocol):
    """Kernels with identical code in base and head."""

    name: str
    times_us: Floats

    def draw(self, rng: np.random.Generator, row: int, processes: Sequence[int]) -> Draw:
        """A fresh measurement of a row: `processes[i]` blocks in process i."""


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """Noise of one visit, in log units.

    `scale`: median over rows of the scale of a visit; `spread`: sd of its logarithm over rows; `df`: of Student's t
    that visits and process offsets follow; `process_share`: what part of the variance sticks to the process;
    `visit_ms`: GPU time of a visit.
    """

    name: str
    scale: float
    spread: float
    df: float
    process_share: float
    visit_ms: float


# Public MI350X results, same code in one process: |ratio - 1| p50 0.93%, p90 4%, p95 5.6%, p99 10.7%, and about 40% of
# the variance sticks to the process. This model gives 0.93, 3.6, 5.2 and 10.3%.
MI350X = Noise(
    name="simulated, MI350X one-launch noise", scale=0.00805, spread=0.6, df=3.0, process_share=0.4, visit_ms=0.5
)
# H200, slope over 2 ms graphs: A/A spread 0.2% in one process, medians of processes differ by 0.1 to 0.4%.
H200 = Noise(name="simulated, H200 slope noise", scale=0.002, spread=0.3, df=30.0, process_share=0.4, visit_ms=2.0)
NOISES = {"mi350x": MI350X, "h200": H200}
# Share of shapes per time stratum and the stratum's range in microseconds, as in real decode and prefill ledgers.
MIX: tuple[tuple[float, float, float], ...] = (
    (0.12, 1.0, 2.5), (0.20, 2.5, 5.0), (0.20, 5.0, 10.0), (0.30, 10.0, 50.0), (0.18, 50.0, 400.0)
)  # fmt: skip


class Simulated:
    """Rows of made-up kernels with the noise of a `Noise` model."""

    def __init__(self, noise: Noise, *, rows: int, seed: int) -> None:
        rng = np.random.default_rng([seed, 1])
        counts = np.floor(np.array([share for share, _, _ in MIX]) * rows).astype(int)
        counts[3] += rows - counts.sum()
        parts = [
            np.exp(rng.uniform(math.log(low), math.log(high), size=count))
            for count, (_, low, high) in zip(counts, MIX, strict=True)
        ]
        self.name = noise.name
        self.times_us: Floats = np.concatenate(parts)
        self._visit: Floats = noise.scale * np.exp(noise.spread * rng.normal(size=rows))
        self._process: Floats = self._visit * math.sqrt(noise.process_share / (1 - noise.process_share))
        self._df = noise.df

    def draw(self, rng: np.random.Generator, row: int, processes: Sequence[int]) -> Draw:
        """Independent visits around a process offset of each arm."""
        sides = []
        for _ in range(2):
            offsets = np.repeat(self._process[row] * rng.standard_t(self._df, size=len(processes)), processes)
            visits = self._visit[row] * rng.standard_t(self._df, size=(sum(processes), VISITS))
            sides.append(math.log(self.times_us[row]) + offsets[:, None] + visits)
        return Draw(base=sides[0], head=sides[1], process=labels(processes))


class Recorded:
    """Rows of a recorded A/A session (equal code in base and head): blocks drawn again, arms swapped at random.

    Blocks are drawn with replacement inside a recorded process, and a process keeps its offset, as the arms are
    swapped for a whole process at a time.
    """

    def __init__(self, base: Results, head: Results, *, name: str) -> None:
        self.name = name
        heads = {(row.shape_id, row.provider): row for row in head.outcomes if _usable(row)}
        pairs = [
            (row, heads[key])
            for row in base.outcomes
            if _usable(row) and (key := (row.shape_id, row.provider)) in heads
        ]
        self._rows = [_recorded(was, now) for was, now in pairs]
        self.times_us: Floats = np.array([was.median_us for was, _ in pairs], dtype=float)

    def draw(self, rng: np.random.Generator, row: int, processes: Sequence[int]) -> Draw:
        """Blocks of recorded processes, one recorded process per asked one."""
        recorded = self._rows[row]
        parts: list[tuple[Floats, Floats]] = []
        for count in processes:
            was, now = recorded[int(rng.integers(len(recorded)))]
            chosen = rng.integers(len(was), size=count)
            pair = (was[chosen], now[chosen])
            parts.append(pair if rng.random() < 0.5 else pair[::-1])
        return Draw(
            base=np.concatenate([was for was, _ in parts]),
            head=np.concatenate([now for _, now in parts]),
            process=labels(processes),
        )


def labels(processes: Sequence[int]) -> tuple[int, ...]:
    """The process of each block."""
    return tuple(index for index, count in enumerate(processes) for _ in range(count))


def _usable(row: AnyOutcome) -> bool:
    blocks = row.blocks_us
    if row.benchmark_status != "ok" or not blocks or len(blocks) < 2 or len(blocks[0]) < 2 or row.median_us is None:
        return False
    return all(len(block) == len(blocks[0]) and all(0 < visit < math.inf for visit in block) for block in blocks)


def _recorded(was: AnyOutcome, now: AnyOutcome) -> list[tuple[Floats, Floats]]:
    """The log times of each recorded process, base and head."""
    assert was.blocks_us is not None and now.blocks_us is not None
    k = min(len(was.blocks_us), len(now.blocks_us))
    base, head = np.log(np.array(was.blocks_us[:k])), np.log(np.array(now.blocks_us[:k]))
    named = now.block_process
    process = np.array(named[:k]) if named is not None and len(named) >= k else np.zeros(k, dtype=int)
    return [(base[process == one], head[process == one]) for one in np.unique(process)]
