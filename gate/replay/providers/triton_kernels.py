"""The Triton code itself, and how a tile size is chosen for a matrix product."""

# mypy: ignore-errors
from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm(x, weight, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    gain = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, axis=0) / columns + eps)
    tl.store(out + row * columns + column, (value * scale * gain).to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax(x, out, rows, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    value = tl.load(x + row * columns + column, mask=inside, other=-float("inf")).to(tl.float32)
    value = tl.exp(value - tl.max(value, axis=1)[:, None])
    value = value / tl.sum(value, axis=1)[:, None]
    tl.store(out + row * columns + column, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def vec_add(a, b, out, count, BLOCK: tl.constexpr):
    offset = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    total = tl.load(a + offset, mask=inside).to(tl.float32) + tl.load(b + offset, mask=inside).to(tl.float32)
    tl.store(out + offset, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def gemm(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    # Groups of GROUP tile rows keep the tiles of b that they share in L2.
    group = program // (GROUP * tiles_n)
    first = group * GROUP
    height = min(tiles_m - first, GROUP)
    inner = program % (GROUP * tiles_n)
    tile_m = first + inner % height
    tile_n = inner // height
    row = (tile_m * BM + tl.arange(0, BM)).to(tl.int64)
    column = (tile_n * BN + tl.arange(0, BN)).to(tl.int64)
    depth = tl.arange(0, BK)
    # Rows beyond the edge read row 0 instead of being masked; their results are not stored.
    from_a = a + tl.where(row < m, row, 0)[:, None] * k + depth[None, :]
    from_b = b + tl.where(column < n, column, 0)[None, :] * k + depth[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(k, BK)):
        left = k - step * BK
        left_tile = tl.load(from_a, mask=depth[None, :] < left, other=0.0)
        right_tile = tl.load(from_b, mask=depth[:, None] < left, other=0.0)
        total = tl.dot(left_tile, right_tile, total)
        from_a += BK
        from_b += BK
    target = out + row[:, None] * n + column[None, :]
    tl.store(target, total.to(out.dtype.element_ty), mask=(row[:, None] < m) & (column[None, :] < n))


def configs_for(m: int, n: int, k: int) -> list[dict[str, Any]]:
    """The tile sizes worth trying for a product; small M gets flat tiles, so that no lane computes padding."""
    if torch.version.hip:
        large = [(256, 256, 64, 8, 2), (256, 128, 64, 8, 2), (128, 128, 64, 4, 2), (128, 64, 64, 4, 2)]
        flat = [(16, 64, 128, 2, 2), (32, 64, 128, 4, 2), (16, 32, 256, 2, 2), (64, 64, 128, 4, 2)]
    else:
        large = [(128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (256, 128, 64, 8, 3), (128, 64, 64, 4, 4)]
        flat = [(16, 64, 128, 4, 4), (32, 64, 128, 4, 4), (16, 32, 256, 4, 3), (64, 64, 64, 4, 5)]
    tiles = flat if m <= 64 else large if m * n >= 1 << 20 else [*large[2:], flat[3]]
    return [
        {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "num_warps": warps, "num_stages": stages}
        for bm, bn, bk, warps, stages in tiles
    ]


_CHOSEN: dict[str, dict[str, Any]] = {}


def tuned(a, b, out) -> dict[str, Any]:
    """The quickest config for these tensors, kept on disk so that every process that runs this code uses the same."""
    key = _key(a, b)
    if key not in _CHOSEN:
        path = _cache_folder() / f"{key}.json"
        try:
            _CHOSEN[key] = json.loads(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            _CHOSEN[key] = _tune(a, b, out)
            _keep(path, _CHOSEN[key])
    return _CHOSEN[key]


def _key(a, b) -> str:
    m, k = a.shape
    target = triton.runtime.driver.active.get_current_target()
    source = f"{gemm.src}:{configs_for(m, b.shape[0], k)}:{a.dtype}:{m}x{b.shape[0]}x{k}:{target}:{triton.__version__}"
    return "gemm-" + hashlib.sha256(source.encode()).hexdigest()[:24]


def _cache_folder() -> Path:
    default = Path.home() / ".triton" / "cache"
    return Path(os.environ.get("TRITON_CACHE_DIR") or default) / "gate-tuned"


def _keep(path: Path, config: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        json.dump(config, file)
    Path(name).replace(path)


def _tune(a, b, out) -> dict[str, Any]:
    (m, k), n = a.shape, b.shape[0]
    best, best_us = None, float("inf")
    for config in configs_for(m, n, k):
        grid = (triton.cdiv(m, config["BM"]) * triton.cdiv(n, config["BN"]),)
        try:
            us = _quick_us(lambda grid=grid, config=config: gemm[grid](a, b, out, m, n, k, **config))
        except triton.runtime.errors.OutOfResources:
            continue
        if us < best_us:
            best, best_us = config, us
    if best is None:
        raise RuntimeError(f"no tile size of {len(configs_for(m, n, k))} fits this GPU for {m} x {n} x {k}")
    return best


def _quick_us(call) -> float:
    """The least of a few event-timed calls: a choice, not a measurement."""
    call()
    times = []
    for _ in range(8):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return min(times)
