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
from typing import Any

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


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


class Tensor:
    """A tensor with no storage: shape and strides in elements, never read or written."""

    is_cuda = False

    def __init__(self, shape: Sequence[int], dtype: DType, strides: Sequence[int] | None = None) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.device = Device()
        self._strides = tuple(strides) if strides is not None else row_major(self.shape)

    def stride(self, dim: int | None = None) -> Any:
        return self._strides if dim is None else self._strides[dim]

    def element_size(self) -> int:
        return self.dtype.itemsize

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def is_floating_point(self) -> bool:
        return "float" in self.dtype.name

    def is_contiguous(self) -> bool:
        return self._strides == row_major(self.shape)

    def contiguous(self) -> Tensor:
        return self if self.is_contiguous() else Tensor(self.shape, self.dtype)

    def t(self) -> Tensor:
        return Tensor(self.shape[::-1], self.dtype, self._strides[::-1])

    def view(self, *shape: Any) -> Tensor:
        """Another shape or another element type of the same size; one extent may be -1."""
        if isinstance(shape[0], DType):
            return Tensor(self.shape, shape[0], self._strides)
        wanted = tuple(shape[0]) if isinstance(shape[0], (tuple, list)) else shape
        known = 1
        for extent in wanted:
            known *= extent if extent != -1 else 1
        return Tensor([self.numel() // known if extent == -1 else extent for extent in wanted], self.dtype)

    reshape = view

    def data_ptr(self) -> int:
        return 0


class Stream:
    """The class FlyDSL registers as a stream argument."""


def empty(shape: Sequence[int], *, dtype: DType) -> Tensor:
    """The stand-in for torch.empty."""
    return Tensor(shape, dtype)


def _no_device() -> bool:
    return False


class Function:
    """The base class of the training wrappers, which are defined and never called."""


@dataclass(frozen=True)
class FloatLimits:
    """What torch.finfo tells of an 8-bit float."""

    max: float


# OCP 8-bit formats and the two that AMD's CDNA3 uses instead.
LARGEST: Mapping[str, float] = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}


def finfo(dtype: DType) -> FloatLimits:
    """The stand-in for torch.finfo, for the 8-bit floats that kernels scale to."""
    return FloatLimits(LARGEST[dtype.name])


def install() -> types.ModuleType:
    """Put the stand-in where `import torch` finds it, and return it.

    It replaces a real torch on purpose: importing one takes seconds, and what is compiled must not depend on it.
    """
    torch = types.ModuleType("torch")
    sys.modules["torch"] = torch
    dtypes = {name: DType(name, size) for name, size in ITEM_BYTES.items()}
    words = {"half": dtypes["float16"], "float": dtypes["float32"], "int": dtypes["int32"]}
    torch.__dict__.update(dtypes, **words, Tensor=Tensor, dtype=DType, device=Device, empty=empty, finfo=finfo)
    # Kernel files import or name these beside torch, and use them in their host wrappers only.
    below = {name: _submodule(name) for name in ("cuda", "nn", "nn.functional", "distributed", "autograd", "_C")}
    below["cuda"].__dict__.update(Stream=Stream, is_available=_no_device)
    below["autograd"].__dict__.update(Function=Function)
    return torch


def _submodule(name: str) -> types.ModuleType:
    module = types.ModuleType(f"torch.{name}")
    above, _, last = module.__name__.rpartition(".")
    setattr(sys.modules[above], last, module)
    sys.modules[module.__name__] = module
    return module
