"""What the gate must know of one kernel of a checkout: where its builder is, and what to give it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# What may be compiled into a kernel, as records spell it (gate.model.codegen), which workers do not import.
Constexpr = int | float | bool | str

ROWS = 4
FLY_DTYPE: Mapping[str, str] = {"fp16": "f16", "fp32": "f32"}

Tensor = list[Any]
Constexprs = Mapping[str, Constexpr]
# A ledger shape's dimensions, and the kernel that serves it: its name, its dtype and what is compiled in.
Args = Mapping[str, Any]
Found = tuple[str, str, dict[str, Constexpr]]
FLOATS = ("bf16", "f16", "f32")
HALVES = ("bf16", "f16")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One launch: all of `values` and what it has of `offers` go to the builder by name, the rest to its launcher.

    `modules`, `builders` and `launchers` are names to try in order, for a checkout may be older or newer; without
    builders the launcher is a function of the module. `tensors` gives dtype, shape and layout by argument name,
    `scalars` values ("address" is one), `made` arguments that a function of the module makes.
    """

    modules: tuple[str, ...]
    builders: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    offers: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    made: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One op of a checkout. `parts` says how a case is launched, `cases` are (dtype, constexprs) that stand for it.

    `occupancy_bound` declares that the op hides latency behind other waves: a lost wave then fails.
    """

    op_type: str
    family: str
    parts: Callable[[str, Constexprs], tuple[Part, ...]]
    cases: tuple[tuple[str, dict[str, Constexpr]], ...]
    occupancy_bound: bool = False


class Refusal(Exception):
    """A ledger shape that the kernel does not serve; the message is the constraint."""


def positive(args: Mapping[str, Any], name: str) -> int:
    """The argument as a positive integer. Raises Refusal."""
    value = args.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 1:
        raise Refusal(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def element(dtype: str) -> str:
    """FlyDSL's word for an element type; ledgers also say fp16 and fp32."""
    return FLY_DTYPE.get(dtype, dtype)


def among(dtype: str, allowed: tuple[str, ...]) -> str:
    """FlyDSL's word for a dtype of the ledgers. Raises Refusal for one that is not allowed."""
    name = element(dtype)
    if name not in allowed:
        raise Refusal(f"dtype {dtype}: the kernel is written for {', '.join(allowed)}")
    return name
