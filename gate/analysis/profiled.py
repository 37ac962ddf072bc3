"""What a profiler run says of why a kernel is slow, in the words that the rules give as evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gate.analysis.cells import Cell
from gate.model.diagnosis import Diagnosis

Profiles = Mapping[tuple[str, str], Diagnosis]
# Two waves a SIMD hide almost no latency on gfx950, which holds eight.
FEW_WAVES = 2.0
# A call of one kernel may hold a second dispatch now and then (a memset); from here on it is several kernels.
SEVERAL = 1.5
# Kernels that take less than this share of the measured time: what is measured is not the kernels.
KERNEL_SHARE = 0.5


def usable(profiles: Profiles, cells: Iterable[Cell]) -> tuple[dict[str, Diagnosis], tuple[str, ...]]:
    """The diagnosis of each candidate by shape_id, and a line for each that is of no use here."""
    left = dict(profiles)
    found: dict[str, Diagnosis] = {}
    told: list[str] = []
    for cell in cells if profiles else ():
        one = left.pop((cell.shape.shape_id, cell.candidate), None)
        outcome = cell.head_arm.outcome
        if one is None:
            continue
        commit = None if outcome is None else outcome.candidate_commit
        if one.commit and commit and not (one.commit.startswith(commit) or commit.startswith(one.commit)):
            told.append(f"profiles: {one.shape_id} was profiled at {one.commit[:12]}, and head is {commit[:12]}")
        else:
            found[cell.shape.shape_id] = one
    told += [f"profiles: {shape_id} of {provider} is no row of the ledger" for shape_id, provider in sorted(left)]
    return found, tuple(told)


def of_code(profile: Diagnosis | None) -> str:
    """What the registers and memory of the slowest kernel give away; empty if nothing."""
    kernel = None if profile is None else profile.main
    if kernel is None:
        return ""
    if kernel.scratch_bytes:
        return f"the profiler sees {kernel.scratch_bytes} bytes of scratch a lane"
    full = kernel.occupancy
    if full is not None and full.unit == "waves per SIMD" and full.resident <= FEW_WAVES and full.limited_by:
        return f"the profiler sees room for {full.resident:g} of {full.most} waves a SIMD, held by {full.limited_by}"
    return ""


def of_launches(profile: Diagnosis | None) -> str:
    """Whether a call is several kernels, or one that leaves compute units idle; empty if neither."""
    if profile is None:
        return ""
    if profile.dispatches_per_call is not None and profile.dispatches_per_call >= SEVERAL:
        return f"the profiler sees {profile.dispatches_per_call:g} kernels a call"
    full = None if profile.main is None else profile.main.occupancy
    if full is not None and full.workgroups_per_cu is not None and full.workgroups_per_cu < 1:
        return f"the profiler sees workgroups for {full.workgroups_per_cu:.0%} of the compute units"
    return ""


def of_time(profile: Diagnosis | None, time_us: float | None) -> str:
    """Whether most of the measured time is no kernel's; empty if not, or if nobody knows."""
    if profile is None or profile.call_us is None or time_us is None or profile.call_us >= KERNEL_SHARE * time_us:
        return ""
    return f"the profiler sees {profile.call_us:.4g} us of kernels in {time_us:.4g} us measured"
