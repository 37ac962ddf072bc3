"""Which GPU runtime's C library this process can talk to: CUDA's driver or HIP's runtime."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple


class Driver(NamedTuple):
    """The library's functions, and what their names begin with: `cu` or `hip`."""

    functions: Any
    prefix: str


@functools.cache
def driver() -> Driver | None:
    """The library of this machine's GPUs, or None where there is neither."""
    for name, prefix in (("libcuda.so.1", "cu"), ("libamdhip64.so", "hip")):
        try:
            return Driver(ctypes.CDLL(name), prefix)
        except OSError:
            continue
    return None
