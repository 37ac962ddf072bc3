"""How many waves a SIMD of a CDNA GPU holds at once, from registers and LDS."""

from __future__ import annotations

from collections.abc import Mapping

WAVE_LANES = 64
SIMDS_PER_CU = 4
MAX_WAVES = 8
VGPRS_PER_LANE = 512
VGPR_GRANULE = 8
# Bytes per compute unit and allocation granule in bytes: LLVM's AMDGPU subtarget features and getLdsDwGranularity.
LDS: Mapping[str, tuple[int, int]] = {"gfx950": (163840, 1280), "gfx942": (65536, 512)}


def allocated_vgprs(vgpr: int) -> int:
    """Registers per lane that are set aside for a kernel that uses `vgpr`: whole granules of 8."""
    return -(-max(vgpr, 1) // VGPR_GRANULE) * VGPR_GRANULE


def waves_per_simd(*, vgpr: int, lds_bytes: int, workgroup_size: int, arch: str = "gfx950") -> int:
    """Waves that fit on one SIMD at once: registers and LDS each allow a number, at most 8.

    `vgpr` counts AGPRs too. Registers: 512 per lane in granules of 8 (LLVM, AMDGPUBaseInfo.cpp,
    getNumWavesPerEUWithNumVGPRs). LDS: whole workgroups per compute unit, their waves spread over its 4 SIMDs
    (LLVM, AMDGPUSubtarget.cpp, getOccupancyWithWorkGroupSizes). An arch that is not listed is counted as gfx950.
    """
    return max(1, min(MAX_WAVES, *_limits(vgpr, lds_bytes, workgroup_size, arch).values()))


def limited_by(*, vgpr: int, lds_bytes: int, workgroup_size: int, arch: str = "gfx950") -> str:
    """Which of registers and LDS holds the waves below 8, or nothing."""
    limits = _limits(vgpr, lds_bytes, workgroup_size, arch)
    least = min(limits, key=lambda name: limits[name])
    return least if limits[least] < MAX_WAVES else ""


def _limits(vgpr: int, lds_bytes: int, workgroup_size: int, arch: str) -> dict[str, int]:
    limits = {"registers": VGPRS_PER_LANE // allocated_vgprs(vgpr)}
    if lds_bytes:
        capacity, granule = LDS.get(arch, LDS["gfx950"])
        groups = capacity // (-(-lds_bytes // granule) * granule)
        limits["LDS"] = -(-groups * -(-workgroup_size // WAVE_LANES) // SIMDS_PER_CU)
    return limits
