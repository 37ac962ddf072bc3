"""How a tile size is chosen for a matrix product: the quickest of a few, kept on disk."""

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

from gate.replay.providers.triton.kernels.gemm import gemm


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
