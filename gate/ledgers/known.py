"""Knows every op that a ledger may name: those that are derived, probed, or brought by an importer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gate.ledgers.aiter_model_shapes import KERNELS
from gate.ledgers.atom import SCENARIO
from gate.ledgers.ops import DERIVE
from gate.ledgers.synthetic import PROBES
from gate.model.shape import ArgValue

OPS: frozenset[str] = frozenset({*DERIVE, *PROBES, *(kernel.op for kernel in KERNELS.values()), SCENARIO})

# The dimensions that an op needs and these args do not have, in words; empty if they have all. Only the parts above
# this one may ask the ops.
Lacking = Callable[[str, Mapping[str, ArgValue]], str]


def lacks_nothing(op_type: str, args: Mapping[str, ArgValue]) -> str:
    """What is said of dimensions where nobody asks the ops."""
    return ""


def unknown(op_type: str) -> str:
    """Why a row of this op cannot be: one clause, empty if the op is known."""
    if op_type in OPS:
        return ""
    return f"no op {op_type[:40]!r} is known (docs/adding.md adds one); the ops are {', '.join(sorted(OPS))}"
