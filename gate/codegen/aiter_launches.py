"""Knows how host code that launches Triton kernels runs where no GPU is, and what AITER's would have compiled.

Loaded by the Triton worker, in whatever interpreter that runs: standard library, Triton and torch alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

# Compute units of the chip that a target stands for (MI350X, MI300X): AITER sizes some of its grids by them.
UNITS = {"gfx950": 256, "gfx942": 304}
ELEMENTS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e4m3fnuz": "fp8e4b8",
    "int64": "i64",
    "int32": "i32",
    "int8": "i8",
    "uint8": "u8",
}
SMALL_BYTES = 2**31


class Offline:
    """What Triton and AITER ask of a driver before a launch, answered for a chip that is not there."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


class Launch(NamedTuple):
    """One launch that was seen instead of made."""

    function: Any
    values: dict[str, Any]
    options: dict[str, Any]


def stand_in(target: Any) -> None:
    """Has torch and Triton answer for a chip that is not there."""
    cuda: Any = importlib.import_module("torch").cuda
    cuda.current_device = lambda: 0
    chip = SimpleNamespace(multi_processor_count=UNITS.get(target.arch, 256), gcnArchName=target.arch)
    cuda.get_device_properties = lambda *_: chip
    importlib.import_module("triton.runtime").driver.set_active(Offline(target))


def see_launches(kernels: Path, target: Any) -> list[Launch]:
    """Makes the checkout importable and has every launch from now on appended to the list, which is returned.

    Raises ValueError for a chip whose number of compute units is not known.
    """
    if target.arch not in UNITS:
        raise ValueError(f"how many compute units {target.arch} has is not known, only those of {', '.join(UNITS)}")
    os.environ.update(AITER_TRITON_ONLY="1", CU_NUM=str(UNITS[target.arch]), GPU_ARCHS=target.arch)
    sys.path.insert(0, str(kernels))
    stand_in(target)
    launches: list[Launch] = []

    def see(function: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> None:
        launches.append(launch_of(function, args, named))

    importlib.import_module("triton.runtime.jit").JITFunction.run = see
    return launches


def launch_of(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Launch:
    """A launch with every argument by name; what is no argument of the kernel is an option of the compiler."""
    parameters = inspect.signature(function.fn).parameters
    values = {name: one.default for name, one in parameters.items() if one.default is not one.empty}
    values.update(zip(parameters, args, strict=False))
    values.update({name: value for name, value in named.items() if name in parameters})
    return Launch(function, values, {name: value for name, value in named.items() if name not in parameters})


def found(modules: list[str], name: str) -> Any:
    """The function, from the first of the modules that there is. Raises ImportError and whatever the import raises."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            # The module itself or a package it lies in is absent; what it imports may be absent for a reason.
            if not f"{module}.".startswith(f"{error.name}."):
                raise
    raise ImportError(f"this checkout has no {' or '.join(modules)}")


def arguments(dtype: str, arguments: list[Any]) -> list[Any]:
    """Tensors that hold nothing for shapes, dtypes for their names, the rest as it is."""
    torch: Any = importlib.import_module("torch")
    kind = getattr(torch, dtype)
    made = [torch.empty(one, dtype=kind) if isinstance(one, list) else one for one in arguments]
    return [getattr(torch, one) if isinstance(one, str) else one for one in made]


def specialised(launch: Launch) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int], str]]:
    """Types by name, what is compiled in, and by place what the arguments are known for."""
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    letters: dict[tuple[int], str] = {}
    for index, parameter in enumerate(launch.function.params):
        name, value = parameter.name, launch.values[parameter.name]
        fixed = ("constexpr", "")
        signature[name], known = fixed if parameter.is_constexpr else typed(value, plain=parameter.do_not_specialize)
        if signature[name] == "constexpr":
            constants[name] = value
        if known:
            letters[(index,)] = known
    return signature, constants, letters


def typed(value: Any, *, plain: bool) -> tuple[str, str]:
    """Triton's word for an argument, and what it specialises on: D for multiples of 16, S for less than 2 GiB.

    As Triton does, absent values and ones are compiled in. Raises TypeError for what is no argument of a kernel.
    """
    if value is None:
        return "constexpr", ""
    if hasattr(value, "element_size"):
        element = ELEMENTS[str(value.dtype).rpartition(".")[2]]
        return f"*{element}", "DS" if value.numel() * value.element_size() < SMALL_BYTES else "D"
    if isinstance(value, bool):
        return "u1", ""
    if isinstance(value, float):
        return "fp32", ""
    if not isinstance(value, int):
        raise TypeError(f"no type for a kernel's argument: {type(value).__name__}")
    if value == 1 and not plain:
        return "constexpr", ""
    return ("i32" if abs(value) < 2**31 else "i64"), "D" if value % 16 == 0 and not plain else ""
