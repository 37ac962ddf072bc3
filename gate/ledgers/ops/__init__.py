"""The ops whose shapes follow from a model's dimensions and a point; one entry per op."""

from __future__ import annotations

from collections.abc import Mapping

from gate.ledgers.ops import gemms, norms
from gate.ledgers.ops.point import Derive

DERIVE: Mapping[str, Derive] = {
    "gemm": gemms.gemm,
    "layernorm": norms.layernorm,
    "rmsnorm": norms.rmsnorm,
    "softmax": norms.softmax,
    "vec_add": norms.vec_add,
}
