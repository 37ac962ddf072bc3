"""Knows every op that a ledger may name: those that are derived, probed, or brought by an importer."""

from __future__ import annotations

from gate.ledgers.aiter_model_shapes import KERNELS
from gate.ledgers.atom import SCENARIO
from gate.ledgers.ops import DERIVE
from gate.ledgers.synthetic import PROBES

OPS: frozenset[str] = frozenset({*DERIVE, *PROBES, *(kernel.op for kernel in KERNELS.values()), SCENARIO})


def unknown(op_type: str) -> str:
    """Why a row of this op cannot be: one clause, empty if the op is known."""
    if op_type in OPS:
        return ""
    return f"no op {op_type[:40]!r} is known (docs/adding.md adds one); the ops are {', '.join(sorted(OPS))}"
