"""Every kernel of a checkout that the gate knows, by its own name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gate.binding.bind import module_file
from gate.binding.families import attention, conv, gemm, mixed_moe, moe, norm, quant
from gate.binding.families.kernel import Kernel, Part, Refusal
from gate.binding.families.ledger import OLDER, SHAPES

FAMILIES = (norm.NORMS, gemm.KERNELS, attention.KERNELS, moe.KERNELS, conv.KERNELS, quant.KERNELS)
KERNELS: Mapping[str, Kernel] = {kernel.op_type: kernel for family in FAMILIES for kernel in family}
# Kernels that FlyDSL has replaced by others: they serve checkouts that lack those, and stand for nothing.
REPLACED: Mapping[str, Kernel] = {kernel.op_type: kernel for kernel in (*gemm.REPLACED, mixed_moe.KERNEL)}


def launches_of(
    op: str, dtype: str, args: Mapping[str, Any], root: Path | None
) -> tuple[tuple[Part, ...], Mapping[str, Any]]:
    """The launches that serve a shape in a checkout, and what is compiled in, the kernel's own name among it.

    Raises Refusal where FlyDSL has no kernel of the op, or none for the shape.
    """
    if op not in SHAPES:
        raise Refusal(f"FlyDSL has no {op} in the kernels of a checkout")
    kernel, element, constants = SHAPES[op](dtype, args)
    parts = KERNELS[kernel].parts(element, constants)
    if root is not None and op in OLDER and module_file(root, parts[0].modules) is None:
        older = OLDER[op](dtype, args)
        if older is not None:
            kernel, element, constants = older
            parts = REPLACED[kernel].parts(element, constants)
    return parts, {**constants, "kernel": kernel, "dtype": element}
