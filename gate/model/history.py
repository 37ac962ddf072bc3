"""What the history holds and what is read from it: rows of runs, series of one shape, their noise and their changes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from gate.model.matrix import ProviderName
from gate.model.outcome import CacheState, Status, TimingMethod

# Fields of a row that must be equal within a series; a change of any of them starts a new one.
CONTRACT = ("gpu", "arch", "timing_method", "cache_state")


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of an Outcome that the history keeps; names and meanings are Outcome's.

    Samples and blocks stay in the run's own files.
    """

    run_id: str
    shape_id: str
    provider: ProviderName
    provider_detail: str | None
    candidate_commit: str | None
    gpu: str | None
    arch: str | None
    rocm_version: str | None
    correct: bool | None
    benchmark_status: Status

    median_us: float | None = None
    eager_median_us: float | None = None
    timing_method: TimingMethod | None = None
    cache_state: CacheState | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    min_us: float | None = None
    stable: bool | None = None
    repeat_iters: int | None = None
    session_id: str | None = None
    correctness_error: str | None = None
    skip_reason: str | None = None
    baseline_commit: str | None = None
    driver_version: str | None = None
    torch_version: str | None = None
    triton_version: str | None = None
    flydsl_version: str | None = None
    llvm_version: str | None = None
    kernels_sha: str | None = None
    model: str | None = None
    stage: str | None = None
    dtype: str | None = None
    op_type: str | None = None
    args: dict[str, Any] | None = None
    effective_gbps: float | None = None
    effective_tflops: float | None = None
    isa_sha: str | None = None
    floor_us: float | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the store: `key` is the SHA-256 of its rows, `at` when it was measured, `rows` how many it has."""

    key: str
    name: str
    at: datetime
    rows: int


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows are asked for; an empty tuple means all."""

    ops: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    side: str | None = "head"


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One shape of one provider, measured in one way on one GPU."""

    op_type: str
    shape_id: str
    provider: str
    gpu: str
    arch: str
    timing_method: str
    cache_state: str
    dtype: str = ""
    args: str = ""

    @property
    def contract(self) -> str:
        """How it was measured, in words."""
        return f"{self.gpu}, {self.arch}, {self.timing_method}, {self.cache_state}"


class Points(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a series in the order of their runs: microseconds, the runs' keys, when, and the commits."""

    series: Series
    times_us: tuple[float, ...]
    at: tuple[datetime, ...]
    runs: tuple[str, ...]
    commits: tuple[str, ...]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A lasting change of a series: `ratio` is the time after it over the time before (above 1 = slower).

    `commit`, `run` and `at` are those of the first run after it, `before` the commit of the last run before it.
    `runs_since` counts the runs from there on, `p` is the chance of such a split in a flat series, corrected for the
    choice among all splits. `others` is the ratio of the other providers' times on the shape across the same runs;
    `machine` says that they moved with it, so that the machine changed rather than the kernel.
    """

    at: datetime
    run: str
    commit: str
    before: str
    ratio: float
    runs_since: int
    p: float
    others: float | None = None
    machine: bool = False


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """What a series shows of its noise; fractions of the time, absent with too few runs.

    `limit` is Q3 + 3 IQR of the adjacent changes |log(t[i+1]/t[i])|: a step between two runs that is larger is no
    noise. `detectable` is the slowdown that one new run shows beyond `limit` nine times in ten.
    """

    n: int
    limit: float | None = None
    detectable: float | None = None


class Break(msgspec.Struct, frozen=True, kw_only=True):
    """Where one shape of one provider went over to another contract: a new series, which is compared with nothing."""

    at: datetime
    fields: tuple[str, ...]
    before: str
    after: str


class SeriesTrend(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is said of a series; times in microseconds, `left_out` counts runs that measured it twice."""

    series: Series
    runs: int
    first: datetime
    last: datetime
    first_us: float
    last_us: float
    noise: Noise
    changes: tuple[Change, ...] = ()
    breaks: tuple[Break, ...] = ()
    left_out: int = 0


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The store as a whole."""

    runs: int
    rows: int
    usable: int
    series: int
    files: int
    bytes: int
    first: datetime | None = None
    last: datetime | None = None
    by_op: dict[str, int] = {}
    by_contract: dict[str, int] = {}


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """The series of one op, provider and contract together, run after run.

    `ratio` is the geometric mean, over the `n` series of a run, of the time over the series' own median: above 1 =
    slower than usual.
    """

    op_type: str
    provider: str
    contract: str
    at: tuple[datetime, ...]
    ratio: tuple[float, ...]
    n: tuple[int, ...]
