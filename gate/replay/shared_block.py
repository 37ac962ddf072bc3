"""A block of device memory that several processes map: the same physical pages, each under its own addresses.

It is made by the runtimes' virtual memory calls and handed on as a file descriptor. The older interprocess handles do
not serve: memory opened through them reads at half speed on an H200.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from gate.replay.device import DeviceError
from gate.replay.driver import Driver, driver

# CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and
# CU_MEM_ALLOC_GRANULARITY_RECOMMENDED; HIP gives its own names the same numbers.
PINNED = ON_DEVICE = BY_DESCRIPTOR = RECOMMENDED = 1
READ_WRITE = 3
FIRST_DEVICE = 0
# HIP before 7.1 wants a pointer to the descriptor where CUDA and later versions want the descriptor itself.
HIP_BY_VALUE = 70_100_000


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Properties(ctypes.Structure):
    """CUmemAllocationProp and hipMemAllocationProp; the flags of the latter end earlier."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """`address` is where this process sees it; torch takes it through `__cuda_array_interface__`."""

    address: int
    size: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.address, False), "shape": (self.size,), "typestr": "|u1", "version": 3}


def lend(size: int) -> tuple[SharedBlock, int]:
    """Makes a block of at least `size` bytes on the first visible GPU; and a descriptor of it, the caller's to close.

    Raises DeviceError where the runtime cannot.
    """
    runtime = _runtime()
    properties = _Properties(PINNED, BY_DESCRIPTOR, _Location(ON_DEVICE, FIRST_DEVICE), None)
    step = ctypes.c_size_t()
    _call(runtime, "MemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(properties), RECOMMENDED)
    whole = -(-size // step.value) * step.value
    handle, descriptor = ctypes.c_uint64(), ctypes.c_int()
    _call(runtime, "MemCreate", ctypes.byref(handle), _size(whole), ctypes.byref(properties), _flags())
    _call(runtime, "MemExportToShareableHandle", ctypes.byref(descriptor), handle, BY_DESCRIPTOR, _flags())
    return _mapped(runtime, handle, whole), descriptor.value


def borrow(descriptor: int, size: int) -> SharedBlock:
    """The block behind a descriptor that another process made; `size` is its exact size. Raises DeviceError."""
    runtime = _runtime()
    handle = ctypes.c_uint64()
    number = ctypes.c_int(descriptor)
    given = ctypes.c_void_p(descriptor) if _by_value(runtime) else ctypes.cast(ctypes.byref(number), ctypes.c_void_p)
    _call(runtime, "MemImportFromShareableHandle", ctypes.byref(handle), given, BY_DESCRIPTOR)
    return _mapped(runtime, handle, size)


def _mapped(runtime: Driver, handle: ctypes.c_uint64, size: int) -> SharedBlock:
    address = ctypes.c_uint64()
    nowhere, anywhere = ctypes.c_uint64(0), _size(0)
    _call(runtime, "MemAddressReserve", ctypes.byref(address), _size(size), anywhere, nowhere, _flags())
    _call(runtime, "MemMap", address, _size(size), _size(0), handle, _flags())
    access = _Access(_Location(ON_DEVICE, FIRST_DEVICE), READ_WRITE)
    _call(runtime, "MemSetAccess", address, _size(size), ctypes.byref(access), _size(1))
    return SharedBlock(address.value, size)


def _runtime() -> Driver:
    found = driver()
    if found is None:
        raise DeviceError("neither CUDA's driver nor HIP's runtime can be loaded")
    return found


def _by_value(runtime: Driver) -> bool:
    if runtime.prefix == "cu":
        return True
    version = ctypes.c_int()
    _call(runtime, "RuntimeGetVersion", ctypes.byref(version))
    return version.value >= HIP_BY_VALUE


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def _flags() -> ctypes.c_ulonglong:
    return ctypes.c_ulonglong(0)


def _call(runtime: Driver, name: str, *arguments: Any) -> None:
    function = getattr(runtime.functions, runtime.prefix + name, None)
    if function is None:
        raise DeviceError(f"the runtime has no {runtime.prefix}{name}")
    code = function(*arguments)
    if code != 0:
        raise DeviceError(f"{runtime.prefix}{name} failed with code {code}")
