"""The read probe in Triton: streams a float32 tensor and keeps one number per block only when it is not finite."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

BLOCK = 8192


@triton.jit  # type: ignore[untyped-decorator]
def _read(x, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + offsets, mask=offsets < n, other=0.0), axis=0)
    # The compiler cannot know that this never happens, so it must load everything.
    if total == 1.2345e30:
        tl.store(out, total)


def read(tensor: Any) -> None:
    """Enqueues a read of a contiguous float32 tensor."""
    n = tensor.numel()
    _read[(triton.cdiv(n, BLOCK),)](tensor, tensor, n, BLOCK=BLOCK, num_warps=8)
