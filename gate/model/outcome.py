"""What one result row is: one provider on one shape, measured or not, and how."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from gate.model.matrix import ProviderName
from gate.model.problem import Problem

Status = Literal["ok", "failed", "skipped", "oom", "unsupported", "incorrect", "not_configured"]
TimingMethod = Literal["cudagraph", "graph_slope", "device_timestamps", "eager_event", "codegen", "cpu_wall"]
CacheState = Literal["cold_hbm", "cold_l2", "hot", "unverified", "l2_flushed_graph", "warm_graph_replay"]
STATUSES: tuple[str, ...] = get_args(Status)
TIMING_METHODS: tuple[str, ...] = get_args(TimingMethod)
CACHE_STATES: tuple[str, ...] = get_args(CacheState)
# The fields of a row that say with which software it was measured.
VERSION_FIELDS = (
    "rocm_version",
    "driver_version",
    "torch_version",
    "triton_version",
    "flydsl_version",
    "llvm_version",
    "kernels_sha",
    "sglang_commit",
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One row of benchmark_results.jsonl.

    `*_us` are microseconds. `median_us` is the primary, kernel-only time; `blocks_us` holds the blocks in order,
    each a list of this arm's visits; block i of base pairs with block i of head when `session_id` is the same.
    `block_process` numbers the process pair that measured each block (all one process if null).
    `control`: base and head share the arm that was measured, so the row tells nothing of what differs between them.
    `timing_method` codegen means that machine code was compared and no time was taken.
    `floor_us` is what an empty kernel takes in the same graph; below 1.2 times that a row is `dispatch_bound`, and
    `device_us`, the profiler's device time of one call, says more.
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
    warmup_iters: int | None
    repeat_iters: int | None
    benchmark_status: Status

    median_us: float | None = None
    eager_median_us: float | None = None
    graph_median_us: float | None = None
    host_overhead_us: float | None = None
    timing_method: TimingMethod | None = None
    cache_state: CacheState | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    mean_us: float | None = None
    std_us: float | None = None
    min_us: float | None = None
    stable: bool | None = None
    graph_replay_count: int | None = None
    loops_per_measure: int | None = None
    graph_capture_error: str | None = None
    session_id: str | None = None
    blocks_us: tuple[tuple[float, ...], ...] | None = None
    block_process: tuple[int, ...] | None = None
    control: bool | None = None

    includes_allocation: bool | None = None
    includes_layout_conversion: bool | None = None
    includes_jit: bool | None = None
    correctness_error: str | None = None
    skip_reason: str | None = None

    baseline_commit: str | None = None
    driver_version: str | None = None
    torch_version: str | None = None
    triton_version: str | None = None
    flydsl_version: str | None = None
    llvm_version: str | None = None
    kernels_sha: str | None = None
    sglang_commit: str | None = None
    model: str | None = None
    stage: str | None = None
    dtype: str | None = None
    op_type: str | None = None
    args: dict[str, Any] | None = None
    effective_gbps: float | None = None
    effective_tflops: float | None = None
    workspace_bytes: int | None = None
    profile_artifact: str | None = None
    compile_key: str | None = None
    isa_sha: str | None = None
    floor_us: float | None = None
    device_us: float | None = None
    dispatch_bound: bool | None = None
    notes: str | None = None


class Measured(msgspec.Struct, kw_only=True, gc=False):
    """The fields of an Outcome that a judgement reads: what a run of a million rows is read into.

    Names and meanings are Outcome's. It can be changed, so that equal strings can be made one, and it holds nothing
    that refers back to it, so that the garbage collector need not walk it.
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
    warmup_iters: int | None
    repeat_iters: int | None
    benchmark_status: Status

    median_us: float | None = None
    eager_median_us: float | None = None
    host_overhead_us: float | None = None
    timing_method: TimingMethod | None = None
    cache_state: CacheState | None = None
    p10_us: float | None = None
    p90_us: float | None = None
    stable: bool | None = None
    session_id: str | None = None
    blocks_us: tuple[tuple[float, ...], ...] | None = None
    block_process: tuple[int, ...] | None = None
    control: bool | None = None
    includes_layout_conversion: bool | None = None
    correctness_error: str | None = None
    skip_reason: str | None = None
    baseline_commit: str | None = None
    driver_version: str | None = None
    torch_version: str | None = None
    triton_version: str | None = None
    flydsl_version: str | None = None
    llvm_version: str | None = None
    kernels_sha: str | None = None
    sglang_commit: str | None = None
    effective_gbps: float | None = None
    effective_tflops: float | None = None
    isa_sha: str | None = None
    floor_us: float | None = None
    dispatch_bound: bool | None = None


AnyOutcome = Outcome | Measured


class MeasuredResults(msgspec.Struct, frozen=True, kw_only=True):
    """As Results, of rows that hold only what a judgement reads."""

    outcomes: tuple[Measured, ...]
    problems: tuple[Problem, ...] = ()


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one run (base or head); `problems` names each refused line with file, line and reason."""

    outcomes: tuple[Outcome, ...]
    problems: tuple[Problem, ...] = ()
