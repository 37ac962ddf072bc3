"""The orders in which AMD's matrix kernels read weights and scales; made by `prepare`, outside every clock.

The orders are those that FlyDSL's and AITER's kernels document for their operands. All keep the shape of the tensor.
"""

from __future__ import annotations

from typing import Any

LANE_BYTES = 16
SCALE_ROWS, SCALE_COLUMNS = 32, 8


def shuffled(weight: Any, rows: int = 16, columns: int = 16) -> Any:
    """Weights (..., N, K) in tiles of `rows` by 2 x `columns`, each lane's 16 bytes together.

    Raises ValueError when N or K is no multiple of the tile.
    """
    n, k = weight.shape[-2:]
    wide, lane = 2 * columns, LANE_BYTES // weight.element_size()
    if n % rows or k % wide:
        raise ValueError(f"N = {n} and K = {k} must be multiples of {rows} and {wide} to be shuffled")
    tiles = weight.reshape(-1, n // rows, rows, k // wide, wide // lane, lane)
    return tiles.permute(0, 1, 3, 4, 2, 5).reshape(weight.shape).contiguous()


def shuffled_fp4(weight: Any) -> Any:
    """Packed e2m1 weights (N, K / 2) in tiles of 16 rows, four groups of 16 bytes at a time."""
    n, k = weight.shape[-2:]
    if n % 16 or k % 64:
        raise ValueError(f"N = {n} and K / 2 = {k} must be multiples of 16 and 64 to be shuffled")
    tiles = weight.reshape(n // 16, 16, k // 64, 4, LANE_BYTES)
    return tiles.permute(0, 2, 3, 1, 4).reshape(weight.shape).contiguous()


def shuffled_scales(scales: Any) -> Any:
    """e8m0 scales (rows, K / 32) in tiles of 32 by 8, rows padded with zeros to whole tiles."""
    import torch

    rows, columns = scales.shape
    if columns % SCALE_COLUMNS:
        raise ValueError(f"K / 32 = {columns} must be a multiple of {SCALE_COLUMNS} for the order of the scales")
    padded = torch.zeros((-(-rows // SCALE_ROWS) * SCALE_ROWS, columns), dtype=scales.dtype, device=scales.device)
    padded[:rows] = scales
    tiles = padded.view(-1, 2, 16, columns // SCALE_COLUMNS, 2, 4)
    return tiles.permute(0, 3, 5, 2, 4, 1).reshape(padded.shape).contiguous()


def sorted_routing(ids: Any, weights: Any, *, experts: int, unit: int) -> tuple[Any, Any, Any, Any]:
    """The (token, slot) pairs of (M, topk) `ids` and `weights` by expert, each padded to whole tiles of `unit`.

    Returns ids (slot << 24 | token, padding topk << 24 | M), weights, the expert of each tile, and how many ids count.
    """
    import torch

    (tokens, topk), device = ids.shape, ids.device
    flat = ids.reshape(-1).long()
    counts = torch.bincount(flat, minlength=experts)
    padded = (counts + unit - 1) // unit * unit
    room = tokens * topk + experts * unit - topk
    order = flat.argsort(stable=True)
    first, start = counts.cumsum(0) - counts, padded.cumsum(0) - padded
    experts_of = flat[order]
    places = start[experts_of] + torch.arange(len(flat), device=device) - first[experts_of]
    packed = (order % topk) << 24 | order // topk
    made = torch.full((room,), topk << 24 | tokens, dtype=torch.int32, device=device)
    made[places] = packed.int()
    shares = torch.zeros(room, dtype=torch.float32, device=device)
    shares[places] = weights.reshape(-1)[order].float()
    tiles = torch.full((-(-room // unit),), -1, dtype=torch.int32, device=device)
    used = torch.repeat_interleave(torch.arange(experts, device=device), padded // unit)
    tiles[: len(used)] = used.int()
    return made, shares, tiles, padded.sum().int().reshape(1)
