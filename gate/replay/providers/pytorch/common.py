"""What PyTorch's kernels share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from gate.replay.provider import Bind, KernelAdapter, Launch, kernel

FLOATS = ("bf16", "fp16", "f16", "fp32", "f32")
HALVES = ("bf16", "fp16", "f16")


def version() -> str | None:
    """torch's git commit."""
    commit: str | None = torch.version.git_version
    return commit


def torch_kernel(*, op: str, dtypes: Iterable[str], **data: Any) -> Callable[[Bind], KernelAdapter]:
    """`kernel`, of this provider and with torch's commit; its libraries choose by rules, not by timing."""
    return kernel(op=op, provider="pytorch", dtypes=dtypes, version=version, tunes_itself=False, **data)


def own_output(name: str, call: Callable[[], Any]) -> Launch:
    """A launch whose output torch allocates, because the op takes no `out`."""
    return lambda: {name: call()}
