"""The stream that FlyDSL's launches go to."""

from __future__ import annotations

import os
from typing import Any


def current_stream() -> Any:
    """torch's current stream as FlyDSL takes it, fetched now; none while FlyDSL only compiles."""
    from flydsl.expr import Stream

    if os.environ.get("COMPILE_ONLY") == "1":
        return Stream(None)
    import torch

    return Stream(torch.cuda.current_stream().cuda_stream)
