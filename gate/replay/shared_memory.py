"""Device memory that two processes see at once: head and base then time their kernels on the very same bytes.

Where a buffer lies in physical memory moves a kernel's time by up to half a percent, for as long as the process lives.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

HANDLE_BYTES = 64
LAZY_PEER_ACCESS = 1


class SharingFailed(Exception):
    """The runtime does not share memory between these processes; each arm then has its own."""


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


class _Api(NamedTuple):
    allocate: Any
    free: Any
    export: Any
    open: Any
    close: Any


@functools.cache
def _api() -> _Api:
    names = {
        "libcuda.so.1": ("cuMemAlloc_v2", "cuMemFree_v2", "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2", "cuIpcCloseMemHandle"),
        "libamdhip64.so": ("hipMalloc", "hipFree", "hipIpcGetMemHandle", "hipIpcOpenMemHandle", "hipIpcCloseMemHandle"),
    }  # fmt: skip
    for library, functions in names.items():
        try:
            loaded = ctypes.CDLL(library)
            return _Api(*(getattr(loaded, name) for name in functions))
        except (OSError, AttributeError):
            continue
    raise SharingFailed("neither the CUDA driver nor the HIP runtime is loaded")


def _check(code: int, what: str) -> None:
    if code != 0:
        raise SharingFailed(f"{what} failed with code {code}")


class Arena:
    """A block of device memory, owned or borrowed."""

    def __init__(self, pointer: int, size: int, *, handle: bytes, owned: bool) -> None:
        self.pointer, self.size, self.handle, self._owned = pointer, size, handle, owned

    @classmethod
    def own(cls, size: int) -> Arena:
        """Allocates `size` bytes and exports them. Raises SharingFailed."""
        pointer, handle = ctypes.c_void_p(), _Handle()
        _check(_api().allocate(ctypes.byref(pointer), ctypes.c_size_t(size)), "allocation")
        code = _api().export(ctypes.byref(handle), pointer)
        if code != 0:
            _api().free(pointer)
            _check(code, "export")
        return cls(pointer.value or 0, size, handle=bytes(handle), owned=True)

    @classmethod
    def borrow(cls, handle: bytes, size: int) -> Arena:
        """Opens another process's block. Raises SharingFailed."""
        pointer = ctypes.c_void_p()
        opened = _Handle.from_buffer_copy(handle)
        _check(_api().open(ctypes.byref(pointer), opened, ctypes.c_uint(LAZY_PEER_ACCESS)), "opening")
        return cls(pointer.value or 0, size, handle=handle, owned=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.pointer, False), "version": 3}

    def close(self) -> None:
        """Gives the block back; no tensor may use it any more."""
        (_api().free if self._owned else _api().close)(ctypes.c_void_p(self.pointer))
