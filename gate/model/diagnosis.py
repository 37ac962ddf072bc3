"""What a profiler saw of one kernel: diagnosis.json, and which rows were worth a profiler run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

SCHEMA = "gate.diagnosis/1"
Tool = Literal["rocprofv3", "torch_profiler"]
# kernel: belongs to the measured calls; setup: made the inputs, filled or copied before or beside them.
Role = Literal["kernel", "setup"]
Count = Annotated[int, msgspec.Meta(ge=0)]
Dim3 = tuple[int, int, int]


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """Device time of `n` dispatches, microseconds, from the profiler's own start and end stamps."""

    n: Count
    min_us: float
    median_us: float
    max_us: float
    total_us: float


class Registers(msgspec.Struct, frozen=True, kw_only=True):
    """Registers per lane: as the tool reports them, and as the hardware sets them aside.

    `vgpr` is the unified total, AGPRs included: (reported VGPRs + AGPRs) x `factor`. On gfx950 rocprofv3 reports half
    of the allocation (it counts granules of 4 where the GPU has granules of 8), so the factor is 2 there. On NVIDIA
    `vgpr` is registers per thread. `sgpr_reported` is kept as it stands; rocprofv3's count is of no use on gfx950.
    """

    vgpr_reported: Count | None = None
    agpr_reported: Count | None = None
    sgpr_reported: Count | None = None
    factor: Count = 1
    vgpr: Count | None = None


class Occupancy(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate of how full the GPU can be: `resident` of at most `most` waves per SIMD (warps per SM on NVIDIA).

    `limited_by` is registers or LDS, empty where nothing holds it below the most. `workgroups_per_cu` is the grid over
    the compute units (SMs): below 1 part of the GPU idles. Absent where the tool does not tell enough.
    """

    resident: float
    most: int
    unit: Literal["waves per SIMD", "warps per SM"]
    limited_by: str = ""
    workgroups_per_cu: float | None = None


class ProfiledKernel(msgspec.Struct, frozen=True, kw_only=True):
    """All dispatches of one kernel with one launch form, on one agent.

    `grid` counts workgroups in x, y, z, `workgroup` lanes. `lds_bytes` is per workgroup as reported: rocprofv3's CSV
    rounds it up to 512. `scratch_bytes` is per lane. `per_call` is dispatches in one call of the op.
    """

    name: str
    role: Role
    count: Count
    durations: Durations
    per_call: float | None = None
    agent: str = ""
    grid: Dim3 | None = None
    workgroup: Dim3 | None = None
    lds_bytes: Count | None = None
    scratch_bytes: Count | None = None
    registers: Registers = Registers()
    occupancy: Occupancy | None = None


class CodeFact(msgspec.Struct, frozen=True, kw_only=True):
    """One number of the profile beside the codegen record of the same key; `words` say how they compare."""

    what: str
    profiled: int
    recorded: int
    agrees: bool
    words: str


class CodeComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The profile against the machine-code record of the same compile key."""

    compile_key: str
    agrees: bool
    facts: tuple[CodeFact, ...]
    isa_sha: str | None = None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One (shape, provider) under a profiler.

    `calls` is how many calls the trace holds beside `warmup_calls` that are left out of the durations; None where
    nobody said. `dispatches_per_call` counts the kernels of one call, `call_us` is the sum of their medians. `files`
    are the kept trace, script and output, relative to the folder of the diagnosis. An absent number is null, never 0.
    """

    schema: Literal["gate.diagnosis/1"] = "gate.diagnosis/1"
    shape_id: str
    provider: str
    tool: Tool
    op_type: str = ""
    dtype: str = ""
    args: dict[str, Any] = {}
    arch: str = ""
    gpu: str = ""
    tool_version: str = ""
    commit: str | None = None
    calls: Count | None = None
    warmup_calls: Count = 0
    dispatches: Count = 0
    dispatches_per_call: float | None = None
    call_us: float | None = None
    kernels: tuple[ProfiledKernel, ...] = ()
    setup: tuple[ProfiledKernel, ...] = ()
    code: CodeComparison | None = None
    notes: tuple[str, ...] = ()
    files: dict[str, str] = {}

    @property
    def main(self) -> ProfiledKernel | None:
        """The kernel that takes most of a call's time."""
        return max(self.kernels, key=lambda kernel: kernel.durations.total_us, default=None)


class ProfileChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one row of a decision is profiled by the trigger rule, and the reason in words."""

    shape_id: str
    provider: str
    profile: bool
    reason: str
    diagnosis: str = ""
