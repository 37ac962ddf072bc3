"""What the matrix products of quantised operands share: out (M, N) = a (M, K) @ b (N, K)^T, with or without a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gate.replay.device import Memory
from gate.replay.op import Case, Op, Spec, Tensors, Tolerance
from gate.replay.quantised import PLAIN, fill_operand, operand_bytes, scale_shape, widened

# The forms of a and b, by the dtype of the ledger row.
Forms = Mapping[str, tuple[str, str]]

WHY = (
    "accumulation in another order over K and one rounding to the output dtype; quantised rows are scaled to outputs "
    "near 1, where Hopper's fp8 units, which keep about 14 bits of a sum, are up to 2% off"
)


def product_op(
    name: str, *, forms: Forms, tolerances: Mapping[str, Tolerance], layout: str, batched: bool = False
) -> Op:
    """The op of that name; b may be laid out anew before the clock starts, a may not."""

    def shapes(case: Case) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        batch = (case.dim("B"),) if batched else ()
        m, n, k = (case.dim(axis) for axis in ("M", "N", "K"))
        return (*batch, m, k), (*batch, n, k), (*batch, m, n)

    def inputs(case: Case, memory: Memory, copies: int, seed: int) -> Tensors:
        (left, right), (a, b, _) = forms[case.dtype], shapes(case)
        # Plain operands are N(0, 1), as gemm's.
        rms = 1.0 if right in PLAIN else case.dim("K") ** -0.5
        made = fill_operand(memory, copies, seed, name="a", shape=a, form=left, rms=1.0)
        return made | fill_operand(memory, copies, seed + 2, name="b", shape=b, form=right, rms=rms)

    def outputs(case: Case) -> dict[str, Spec]:
        a, b, out = shapes(case)
        for shape, form in zip((a, b), forms[case.dtype], strict=True):
            operand_bytes(shape, form), scale_shape(shape, form)
        return {"out": Spec(shape=out, dtype="f16" if forms[case.dtype][0] == "f16" else "bf16")}

    def reference(case: Case, tensors: Tensors) -> Tensors:
        left, right = forms[case.dtype]
        return {"out": widened(tensors, "a", left) @ widened(tensors, "b", right).transpose(-1, -2)}

    def bytes_moved(case: Case) -> float:
        (left, right), (a, b, out) = forms[case.dtype], shapes(case)
        return operand_bytes(a, left) + operand_bytes(b, right) + 2.0 * math.prod(out)

    def flops(case: Case) -> float:
        return 2.0 * math.prod(shapes(case)[2]) * case.dim("K")

    return Op(
        name=name,
        inputs=inputs,
        outputs=outputs,
        reference=reference,
        bytes_moved=bytes_moved,
        flops=flops,
        tolerances=tolerances,
        layout=layout,
        refresh=("a",),
    )
