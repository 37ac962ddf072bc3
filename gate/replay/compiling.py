"""How many threads one kernel's compile may take, as set by whoever knows what else the host does; one unless set.

Standard library only: this module is imported inside worker processes that hold nothing but torch.
"""

from __future__ import annotations

import os
from contextvars import ContextVar

THREADS: ContextVar[int] = ContextVar("threads of a compile", default=1)
MOST = 4


def fair_threads() -> int:
    """A part of the cores that leaves some to the compiles of other lanes and sides, which seldom coincide."""
    return max(1, min(MOST, len(os.sched_getaffinity(0)) // MOST))
