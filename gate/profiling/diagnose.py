"""From a trace to a diagnosis: kernels grouped by launch form, registers as set aside, occupancy, the code beside."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gate.model.codegen import CodegenRecord
from gate.model.diagnosis import Diagnosis, Durations, Occupancy, ProfiledKernel, Registers, Role
from gate.model.occupancy import MAX_WAVES, limited_by, waves_per_simd
from gate.model.text import counted
from gate.profiling import compare
from gate.profiling.calls import Calls, split
from gate.profiling.trace import Dispatch, Trace

NVIDIA_REGISTERS, NVIDIA_LANES, NVIDIA_UNIT = 65536, 32, 256
# Most warps an SM holds, by compute capability (CUDA C++ programming guide, technical specifications).
NVIDIA_WARPS = {"sm_75": 32, "sm_86": 48, "sm_87": 48, "sm_89": 48, "sm_120": 48}
NVIDIA_WARPS_USUAL = 64


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What was profiled: the identity that a trace does not hold, and what overrides what it does."""

    shape_id: str = ""
    provider: str = ""
    op_type: str = ""
    dtype: str = ""
    args: dict[str, Any] = {}
    commit: str | None = None
    arch: str = ""
    gpu: str = ""
    tool_version: str = ""
    calls: int | None = None
    warmup: int = 0
    kernel: str | None = None


def diagnose(
    trace: Trace, subject: Subject, *, code: CodegenRecord | None = None, files: Mapping[str, str] | None = None
) -> Diagnosis:
    """The diagnosis of a trace. Every dispatch is in it: as a kernel of the calls, as setup, or as a note."""
    parts = split(trace.dispatches, calls=subject.calls, warmup=subject.warmup, kernel=subject.kernel)
    home = _most([one.agent for one in parts.measured])
    agent = trace.agent(home)
    arch = subject.arch or (agent.arch if agent else "")
    # A tool that tells AGPRs on gfx950 knows its granule; one that never does counts half (see Registers).
    counts_half = arch == "gfx950" and trace.tool == "rocprofv3" and not any(one.agpr for one in trace.dispatches)
    about = About(arch=arch, factor=2 if counts_half else 1, cus=agent.cus if agent else None, trace=trace)
    kernels = about.kernels(parts.measured, role="kernel", calls=parts.calls)
    comparison, remarks = compare.with_code(kernels, code, arch=arch, lds_exact=trace.lds_exact)
    per_call = len(parts.measured) / parts.calls if parts.calls else None
    # Every launch form counts by its share, so that a kernel that alternates between two forms adds up.
    sums = [kernel.durations.median_us * kernel.per_call for kernel in kernels if kernel.per_call is not None]
    return Diagnosis(
        shape_id=subject.shape_id,
        provider=subject.provider,
        tool=trace.tool,
        op_type=subject.op_type,
        dtype=subject.dtype,
        args=subject.args,
        arch=arch,
        gpu=subject.gpu or (agent.product if agent else ""),
        tool_version=subject.tool_version,
        commit=subject.commit,
        calls=parts.calls,
        warmup_calls=subject.warmup if parts.warmup else 0,
        dispatches=len(trace.dispatches),
        dispatches_per_call=per_call,
        call_us=math.fsum(sums) if sums and per_call else None,
        kernels=kernels,
        setup=about.kernels(parts.setup, role="setup", calls=None),
        code=comparison,
        notes=(*trace.notes, *_notes(trace, parts, arch=arch, home=home), *remarks),
        files=dict(files or {}),
    )


def _most(names: Sequence[str]) -> str:
    return Counter(names).most_common(1)[0][0] if names else ""


def _notes(trace: Trace, parts: Calls, *, arch: str, home: str) -> list[str]:
    notes = list(parts.notes)
    agents = Counter(one.agent for one in trace.dispatches)
    if len(agents) > 1:
        told = ", ".join(f"{name or '(unnamed)'}: {count}" for name, count in agents.items())
        notes.append(f"dispatches on {len(agents)} agents ({told}); the calls ran on {home}")
    if parts.warmup:
        warm = counted(len(parts.warmup), "dispatch", "dispatches")
        notes.append(f"{warm} of warm-up calls left out of the durations")
    if trace.copies:
        copies = counted(trace.copies, "memory copy or fill", "memory copies or fills")
        notes.append(f"{copies} beside the kernels, in no duration")
    if not arch:
        notes.append("the trace does not tell the architecture: registers as set aside and waves are not computed")
    elif trace.tool == "rocprofv3":
        notes.append("rocprofv3's SGPR count is kept as reported; it is of no use on gfx950")
    return notes


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What all kernels of a trace share: `factor` turns reported registers into those set aside."""

    arch: str
    factor: int
    cus: int | None
    trace: Trace

    def kernels(self, dispatches: Sequence[Dispatch], *, role: Role, calls: int | None) -> tuple[ProfiledKernel, ...]:
        """The dispatches by kernel, agent and launch form, in order of first appearance."""
        groups: dict[tuple[object, ...], list[Dispatch]] = {}
        for one in dispatches:
            form = (one.grid, one.workgroup, one.lds_bytes, one.scratch_bytes, one.vgpr, one.agpr, one.sgpr)
            groups.setdefault((one.name, one.agent, *form), []).append(one)
        return tuple(self._kernel(group, role=role, calls=calls) for group in groups.values())

    def _kernel(self, group: Sequence[Dispatch], *, role: Role, calls: int | None) -> ProfiledKernel:
        first, times = group[0], [one.us for one in group]
        registers = self._registers(first)
        return ProfiledKernel(
            name=first.name,
            role=role,
            count=len(group),
            durations=Durations(
                n=len(times),
                min_us=min(times),
                median_us=statistics.median(times),
                max_us=max(times),
                total_us=math.fsum(times),
            ),
            per_call=len(group) / calls if calls else None,
            agent=first.agent,
            grid=first.grid,
            workgroup=first.workgroup,
            lds_bytes=first.lds_bytes,
            scratch_bytes=first.scratch_bytes,
            registers=registers,
            occupancy=self._occupancy(first, registers),
        )

    def _registers(self, one: Dispatch) -> Registers:
        known = one.vgpr is not None and bool(self.arch)
        total = ((one.vgpr or 0) + (one.agpr or 0)) * self.factor
        return Registers(
            vgpr_reported=one.vgpr,
            agpr_reported=one.agpr,
            sgpr_reported=one.sgpr,
            factor=self.factor,
            vgpr=total if known else None,
        )

    def _occupancy(self, one: Dispatch, registers: Registers) -> Occupancy | None:
        if one.occupancy is not None:
            return self._nvidia(one, registers)
        if registers.vgpr is None or one.workgroup is None or not self.arch.startswith("gfx"):
            return None
        form = {
            "vgpr": registers.vgpr,
            "lds_bytes": one.lds_bytes or 0,
            "workgroup_size": math.prod(one.workgroup),
        }
        fill = math.prod(one.grid) / self.cus if one.grid is not None and self.cus else None
        return Occupancy(
            resident=waves_per_simd(**form, arch=self.arch),
            most=MAX_WAVES,
            unit="waves per SIMD",
            limited_by=limited_by(**form, arch=self.arch),
            workgroups_per_cu=fill,
        )

    def _nvidia(self, one: Dispatch, registers: Registers) -> Occupancy:
        most = NVIDIA_WARPS.get(self.arch, NVIDIA_WARPS_USUAL)
        resident = (one.occupancy or 0.0) * most
        units = -(-max(registers.vgpr or 1, 1) * NVIDIA_LANES // NVIDIA_UNIT)
        by_registers = NVIDIA_REGISTERS // (units * NVIDIA_UNIT)
        held = registers.vgpr is not None and by_registers < most
        return Occupancy(
            resident=resident,
            most=most,
            unit="warps per SM",
            limited_by="registers" if held and by_registers <= resident + 1 else "",
            workgroups_per_cu=one.workgroups_per_cu,
        )
