"""Which tile sizes are worth trying for a matrix product, by GPU family, element width and number of rows."""

from __future__ import annotations

from typing import Any

import torch
import triton

from gate.replay.providers.triton.tuning import Config, interpreted, units

FEW_ROWS, SOME_ROWS = 64, 512
MOST_PARTS = 16
# (BM, BN, BK in bytes, warps, stages); of a few rows BM is the least power of two that holds them, 16 at least.
Tile = tuple[int, int, int, int, int]
NVIDIA: dict[str, tuple[Tile, ...]] = {
    "few": ((0, 64, 256, 4, 4), (0, 32, 512, 4, 4), (0, 128, 128, 4, 5), (0, 32, 256, 4, 6)),
    "some": (
        (64, 64, 256, 4, 4),
        (128, 64, 128, 4, 4),
        (128, 128, 128, 8, 4),
        (64, 128, 128, 4, 4),
        (128, 256, 128, 8, 3),
    ),
    "many": ((128, 256, 128, 8, 3), (128, 128, 128, 4, 4), (128, 128, 128, 8, 3), (128, 64, 128, 4, 4)),
}
# Scales by group are applied to each step's own product, which takes as many registers as the sum: what spills is in
# memory that each process has at another place, and so is its time.
NVIDIA_GROUPED: dict[str, tuple[Tile, ...]] = {
    **NVIDIA,
    "some": ((64, 64, 256, 4, 4), (128, 64, 128, 8, 4), (128, 128, 128, 8, 4), (64, 128, 128, 4, 4)),
    "many": ((64, 256, 128, 8, 3), (128, 128, 128, 8, 3), (64, 128, 128, 4, 4), (128, 64, 128, 8, 4)),
}
AMD: dict[str, tuple[Tile, ...]] = {
    "few": ((0, 64, 256, 4, 2), (0, 32, 512, 4, 2), (0, 128, 128, 4, 2), (0, 16, 512, 2, 2)),
    "some": ((128, 128, 128, 4, 2), (64, 64, 256, 4, 2), (64, 128, 128, 4, 2), (128, 256, 128, 8, 2)),
    "many": ((256, 256, 128, 8, 2), (256, 128, 128, 8, 2), (128, 128, 128, 4, 2), (128, 64, 128, 4, 2)),
}
AMD_GROUPED: dict[str, tuple[Tile, ...]] = {**AMD, "many": ((128, 256, 128, 8, 2), *AMD["many"][1:])}
# Decoding takes registers: tiles of 4-bit weights are smaller, and BK counts their values.
NVIDIA_MX: dict[str, tuple[Tile, ...]] = {
    "few": ((0, 64, 128, 4, 4), (0, 128, 128, 4, 3), (0, 64, 256, 4, 3)),
    "some": ((64, 128, 128, 4, 3), (128, 128, 64, 8, 3), (128, 64, 128, 4, 3)),
    "many": ((128, 128, 128, 8, 3), (128, 128, 64, 8, 3), (128, 256, 64, 8, 3)),
}
AMD_MX: dict[str, tuple[Tile, ...]] = {
    "few": ((0, 64, 256, 4, 2), (0, 128, 256, 4, 2), (0, 32, 512, 4, 2)),
    "some": ((64, 128, 256, 4, 2), (128, 128, 256, 4, 2), (64, 64, 256, 4, 2)),
    "many": ((256, 256, 256, 8, 2), (128, 128, 256, 4, 2), (256, 128, 256, 8, 2)),
}
BULK: tuple[Tile, ...] = ((128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (128, 256, 64, 8, 4))


def on_amd() -> bool:
    """Whether the tiles are for an AMD GPU."""
    return triton.runtime.driver.active.get_current_target().backend == "hip" if not interpreted() else False


def native_mx() -> tuple[bool, ...]:
    """Whether tl.dot_scaled is tried for 4-bit weights, and whether decoding them in registers is.

    CDNA 4's matrix units take e2m1 and e8m0 themselves. On Hopper Triton decodes for dot_scaled by instructions of its
    own, which may or may not be quicker than the kernel's.
    """
    if interpreted():
        return (False,)
    target = triton.runtime.driver.active.get_current_target()
    if target.backend == "hip":
        return (str(target.arch) == "gfx950",)
    return (False, True)


def rows_class(m: int) -> str:
    """`few`, `some` or `many` rows."""
    return "few" if m <= FEW_ROWS else "some" if m <= SOME_ROWS else "many"


def tiles_for(m: int, *, width: int, narrow: bool, grouped: bool = False) -> list[Config]:
    """Tiles for m rows of elements of `width` bytes; `narrow` for 4-bit weights, `grouped` for scales by group of K."""
    amd, nvidia = (AMD_MX, NVIDIA_MX) if narrow else (AMD_GROUPED, NVIDIA_GROUPED) if grouped else (AMD, NVIDIA)
    table = amd if on_amd() else nvidia
    least = max(16, min(FEW_ROWS, int(triton.next_power_of_2(m))))
    return [
        {
            "BM": bm or least,
            "BN": bn,
            "BK": bk if narrow else bk // width,
            "GROUP": 8,
            "NATIVE": native,
            "num_warps": warps,
            "num_stages": stages,
        }
        for native in (native_mx() if narrow else (False,))
        for bm, bn, bk, warps, stages in table[rows_class(m)]
    ]


def parts_for(config: Config, *, m: int, n: int, k: int, batch: int = 1) -> list[int]:
    """In how many parts K is worth splitting: such that the tiles fill the GPU once or twice, two steps a part."""
    tiles = triton.cdiv(m, config["BM"]) * triton.cdiv(n, config["BN"]) * batch
    most = max(1, min(MOST_PARTS, triton.cdiv(k, config["BK"]) // 2))
    wanted = {max(1, min(most, round(fill * units() / tiles))) for fill in (1, 2)} if tiles < units() else {1}
    return sorted(wanted)


def bulk_tiles(m: int) -> list[Config]:
    """Tiles for the kernel with bulk copies, which takes K in one part."""
    small = ((128, 64, 64, 4, 6), (64, 128, 64, 4, 6), (64, 64, 128, 4, 4)) if rows_class(m) == "some" else ()
    names = ("BM", "BN", "BK", "num_warps", "num_stages")
    return [{**dict(zip(names, sizes, strict=True)), "GROUP": 8, "split": 0} for sizes in (*BULK, *small)]


def bulk_copies() -> bool:
    """Whether the GPU has Hopper's bulk copies."""
    return not on_amd() and torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 9


def split_configs(
    m: int, n: int, k: int, *, width: int, narrow: bool, grouped: bool = False, batch: int = 1, **limits: int
) -> list[Config]:
    """Tiles with the parts of K that fit them; `limits` cap a tile's sizes by name, the rest as for `tiles_for`."""
    found: list[Any] = []
    for tile in tiles_for(m, width=width, narrow=narrow, grouped=grouped):
        capped = {**tile, **{name: min(tile[name], most) for name, most in limits.items()}}
        found += [{**capped, "split": parts} for parts in parts_for(capped, m=m, n=n, k=k, batch=batch)]
    return [config for index, config in enumerate(found) if config not in found[:index]]
