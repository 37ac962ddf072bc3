"""What the matrix products of quantised operands share: out (M, N) = a (M, K) @ b (N, K)^T, with or without a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, op_of, tolerances
from gate.replay.quantised import PLAIN, fill_operand, operand_bytes, widened

# The forms of a and b, by the dtype of the ledger row.
Forms = Mapping[str, tuple[str, str]]

WHY = (
    "accumulation in another order over K and one rounding to the output dtype; quantised rows are scaled to outputs "
    "near 1, where Hopper's fp8 units, which keep about 14 bits of a sum, are up to 2% off"
)


# (atol, rtol) by the dtype of the ledger row.
LIMITS = {
    "bf16": (2e-1, 1.6e-2),
    "f16": (3e-2, 4e-3),
    "fp8": (5e-2, 2e-2),
    "int8": (2e-2, 1.6e-2),
    "fp4": (2e-2, 1.6e-2),
    "mixed_a16w4": (2e-2, 1.6e-2),
}
# Operands as they are; a ledger may spell f16 in two ways.
HALVES: Forms = {"bf16": ("bf16", "bf16"), "f16": ("f16", "f16"), "fp16": ("f16", "f16")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """The facts of a product with these forms; the methods are those of `Op`."""

    forms: Forms
    batched: bool

    def shapes(self, case: Case) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Logical shapes of a, b and out."""
        batch = (case.dim("B"),) if self.batched else ()
        m, n, k = (case.dim(axis) for axis in ("M", "N", "K"))
        return (*batch, m, k), (*batch, n, k), (*batch, m, n)

    def inputs(self, case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
        (left, right), (a, b, _) = self.forms[case.dtype], self.shapes(case)
        # Plain operands are N(0, 1), as gemm's.
        rms = 1.0 if right in PLAIN else case.dim("K") ** -0.5
        made = fill_operand(memory, copies, seed, name="a", shape=a, form=left, rms=1.0)
        return made | fill_operand(memory, copies, seed + 2, name="b", shape=b, form=right, rms=rms)

    def outputs(self, case: Case) -> dict[str, Spec]:
        out = self.shapes(case)[2]
        return {"out": Spec(shape=out, dtype="f16" if self.forms[case.dtype][0] == "f16" else "bf16")}

    def reference(self, case: Case, tensors: Tensors) -> Tensors:
        left, right = self.forms[case.dtype]
        return {"out": widened(tensors, "a", left) @ widened(tensors, "b", right).transpose(-1, -2)}

    def bytes_moved(self, case: Case) -> float:
        (left, right), (a, b, out) = self.forms[case.dtype], self.shapes(case)
        return operand_bytes(a, left) + operand_bytes(b, right) + 2.0 * math.prod(out)

    def flops(self, case: Case) -> float:
        return 2.0 * math.prod(self.shapes(case)[2]) * case.dim("K")


def product_op(name: str, *, forms: Forms, layout: str, batched: bool = False) -> Op:
    """The op of that name; b may be laid out anew before the clock starts, a may not."""
    limits = tolerances(WHY, **{dtype: LIMITS[dtype] for dtype in forms if dtype in LIMITS})
    facts = Product(forms=forms, batched=batched)
    return op_of(facts, name=name, tolerances=limits, layout=layout, refresh=("a",))
