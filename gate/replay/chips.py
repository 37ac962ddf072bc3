"""What is known of each GPU: cache sizes and peak rates, from the vendors' data sheets."""

from __future__ import annotations

from dataclasses import dataclass, field

MIB = 1024 * 1024


# The rate at which a dtype can be multiplied at best, then what it is on chips without units of its own.
RATES = {
    "f32": ("fp32",),
    "f16": ("bf16",),
    "fp16": ("bf16",),
    "int8": ("fp8",),
    "fp4": ("fp4", "fp8"),
    "mixed_a8w4": ("fp4", "fp8"),
    "mixed_a16w4": ("fp8",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """Peak rates of one GPU model; dense, without sparsity.

    `mall_bytes` is memory-side cache (AMD's Infinity Cache). `l2_bytes` is all L2 of the device.
    """

    name: str
    l2_bytes: int
    mall_bytes: int = 0
    bandwidth_gbps: float | None = None
    tflops: dict[str, float] = field(default_factory=dict)

    @property
    def cache_bytes(self) -> int:
        """All cache of the device: L2 + memory-side cache."""
        return self.l2_bytes + self.mall_bytes

    @property
    def l2_evict_bytes(self) -> int:
        """Bytes that must pass before a line is surely gone from L2; a line may be kept in both halves of an L2."""
        return 4 * self.l2_bytes

    @property
    def evict_bytes(self) -> int:
        """Bytes that must pass before a line is surely gone from every cache."""
        return max(2 * self.cache_bytes, self.l2_evict_bytes)

    def peak_tflops(self, dtype: str) -> float | None:
        """The dense matrix peak that no product of a dtype can beat, or None where no sheet gives one."""
        known = (self.tflops[rate] for rate in RATES.get(dtype, (dtype,)) if rate in self.tflops)
        return next(known, None)


def _rates(bf16: float, fp8: float, fp32: float, fp4: float | None = None) -> dict[str, float]:
    rates = {"bf16": bf16, "fp8": fp8, "fp32": fp32}
    return rates if fp4 is None else {**rates, "fp4": fp4}


# fp32 is the larger of the vector and the matrix rate. An XCD of CDNA 3 and 4 has 4 MB of L2; there are 8.
CHIPS: tuple[Chip, ...] = (
    Chip(name="MI300X", l2_bytes=32 * MIB, mall_bytes=256 * MIB, bandwidth_gbps=5300, tflops=_rates(1307, 2615, 163)),
    Chip(name="MI325X", l2_bytes=32 * MIB, mall_bytes=256 * MIB, bandwidth_gbps=6000, tflops=_rates(1307, 2615, 163)),
    Chip(
        name="MI350X",
        l2_bytes=32 * MIB,
        mall_bytes=256 * MIB,
        bandwidth_gbps=8000,
        tflops=_rates(2300, 4600, 144, 9200),
    ),
    Chip(
        name="MI355X",
        l2_bytes=32 * MIB,
        mall_bytes=256 * MIB,
        bandwidth_gbps=8000,
        tflops=_rates(2500, 5000, 157, 10100),
    ),
    Chip(name="H100", l2_bytes=50 * MIB, bandwidth_gbps=3350, tflops=_rates(989, 1979, 67)),
    Chip(name="H200", l2_bytes=60 * MIB, bandwidth_gbps=4800, tflops=_rates(989, 1979, 67)),
    Chip(name="B200", l2_bytes=126 * MIB, bandwidth_gbps=8000, tflops=_rates(2250, 4500, 80, 9000)),
)

# An unknown AMD part is assumed to have the largest known memory-side cache, so that "cold" errs to the safe side.
UNKNOWN_MALL_BYTES = 256 * MIB


def chip_for(name: str, *, l2_bytes: int, amd: bool) -> Chip:
    """The chip with that product name; an unknown one gets the driver's L2 size and no peaks.

    A known chip keeps the larger of the sheet's and the driver's L2 (a driver may report one die's share only).
    """
    for chip in CHIPS:
        if chip.name in name.replace(" ", "").upper():
            return Chip(
                name=chip.name,
                l2_bytes=max(chip.l2_bytes, l2_bytes),
                mall_bytes=chip.mall_bytes,
                bandwidth_gbps=chip.bandwidth_gbps,
                tflops=chip.tflops,
            )
    mall = UNKNOWN_MALL_BYTES if amd else 0
    return Chip(name=name, l2_bytes=max(l2_bytes, 8 * MIB), mall_bytes=mall)
