"""Every kernel of a checkout that the gate knows, by its own name."""

from __future__ import annotations

from collections.abc import Mapping

from gate.binding.families import attention, conv, gemm, moe, norm, quant
from gate.binding.families.kernel import Kernel

FAMILIES = (norm.NORMS, gemm.KERNELS, attention.KERNELS, moe.KERNELS, conv.KERNELS, quant.KERNELS)
KERNELS: Mapping[str, Kernel] = {kernel.op_type: kernel for family in FAMILIES for kernel in family}
