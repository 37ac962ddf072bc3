"""Knows the small part of torch's surface that the FlyDSL front end touches when it compiles and never launches.

FlyDSL imports torch to read a tensor argument's dtype, shape and strides. Compiling needs no data and no device, so
a module with those attributes is enough, and the codegen extra stays free of a multi-gigabyte dependency.
Standard library only: the worker loads this file by its path in whatever interpreter holds the wheel.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ITEM_BYTES: Mapping[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "float8_e5m2": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2fnuz": 1,
    "float8_e4m3fnuz": 1,
}


@dataclass(frozen=True)
class DType:
    """One element type: torch's name for it and its size in bytes."""

    name: str
    itemsize: int

    def __repr__(self) -> str:
        return f"torch.{self.name}"


@dataclass(frozen=True)
class Device:
    """Where a tensor lives; always the CPU here."""

    type: str = "cpu"
    index: int | None = None


class Tensor:
    """A contiguous row-major tensor with no storage: shape and strides in elements, never read or written."""

    is_cuda = False

    def __init__(self, shape: Sequence[int], dtype: DType) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.device = Device()

    def stride(self) -> tuple[int, ...]:
        strides: list[int] = []
        step = 1
        for extent in reversed(self.shape):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))

    def element_size(self) -> int:
        return self.dtype.itemsize

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def data_ptr(self) -> int:
        return 0


class Stream:
    """The class FlyDSL registers as a stream argument."""


def empty(shape: Sequence[int], *, dtype: DType) -> Tensor:
    """The stand-in for torch.empty."""
    return Tensor(shape, dtype)


def _no_device() -> bool:
    return False


def install() -> types.ModuleType:
    """Put the stand-in where `import torch` finds it, and return it.

    It replaces a real torch on purpose: importing one takes seconds, and what is compiled must not depend on it.
    """
    torch = types.ModuleType("torch")
    cuda = types.ModuleType("torch.cuda")
    dtypes = {name: DType(name, size) for name, size in ITEM_BYTES.items()}
    torch.__dict__.update(dtypes, Tensor=Tensor, dtype=DType, device=Device, empty=empty, cuda=cuda)
    cuda.__dict__.update(Stream=Stream, is_available=_no_device)
    sys.modules["torch"] = torch
    sys.modules["torch.cuda"] = cuda
    return torch
