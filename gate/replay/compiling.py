"""What a kernel's compile is for, as set by whoever asks for it: code alone, or launches in this process.

Standard library only: this module is imported inside worker processes that hold nothing but torch.
"""

from __future__ import annotations

import os
from contextvars import ContextVar

# The threads that the compile of what will be launched may take; 0 where only its code is wanted.
THREADS: ContextVar[int] = ContextVar("threads of a compile", default=0)
MOST = 4


def fair_threads() -> int:
    """A part of the cores that leaves some to the compiles of other lanes and sides, which seldom coincide."""
    return max(1, min(MOST, len(os.sched_getaffinity(0)) // MOST))
