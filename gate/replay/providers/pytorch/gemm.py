"""PyTorch's matrix products: its BLAS, its scaled product for fp8, its integer product; else operands made bf16.

Where torch has no product of the stored form, the weights are widened to bf16 before the clock starts and the
activations by the timed call, which then says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gate.replay import products
from gate.replay.op import Case, Tensors
from gate.replay.ops import batched_gemm as batched_op
from gate.replay.ops import blockscale_preshuffle_gemm as blockscale_op
from gate.replay.ops import fp8_gemm_rowscale as rowscale_op
from gate.replay.ops import preshuffle_gemm as preshuffle_op
from gate.replay.products import Forms
from gate.replay.provider import Holding, KernelAdapter, Launch
from gate.replay.providers.pytorch.common import torch_kernel
from gate.replay.quantised import PLAIN, widened

MM = "torch.mm(out=), the BLAS of the torch build (opaque choice of kernel)"
BMM = "torch.bmm(out=), the BLAS of the torch build (opaque choice of kernel)"
SCALED = "torch._scaled_mm with row scales and fast accumulation"
INTEGER = "torch._int_mm, then the scales in three elementwise kernels"
WIDE = "weights made bf16 beforehand, activations in the call, then "
SCALED_ALIGN, INTEGER_ALIGN = 16, 8
LEAST_INTEGER_ROWS = 17


def has_scaled_mm() -> bool:
    """Whether this GPU's matrix units take fp8: Ada and Hopper on, CDNA 3 and 4."""
    if not torch.cuda.is_available():
        return False
    if torch.version.hip:
        return str(torch.cuda.get_device_properties(0).gcnArchName).startswith(("gfx94", "gfx95", "gfx12"))
    return bool(torch.cuda.get_device_capability() >= (8, 9))


def branch_of(case: Case, forms: Forms) -> str:
    """The way that a case goes."""
    left, _ = forms[case.dtype]
    batched = "B" in case.args
    if left in PLAIN and forms[case.dtype][1] in PLAIN:
        return BMM if batched else MM
    n, k = case.dim("N"), case.dim("K")
    if not batched and left == "fp8_rows" and has_scaled_mm() and n % SCALED_ALIGN == k % SCALED_ALIGN == 0:
        return SCALED
    integer = case.dim("M") >= LEAST_INTEGER_ROWS and n % INTEGER_ALIGN == k % INTEGER_ALIGN == 0
    if not batched and left == "int8_rows" and integer:
        return INTEGER
    return WIDE + (BMM if batched else MM)


def plain(tensors: Tensors) -> Launch:
    """mm or bmm of operands as they are."""
    a, b, out = tensors["a"], tensors["b"].transpose(-1, -2), tensors["out"]
    product: Callable[..., Any] = torch.mm if a.dim() == 2 else torch.bmm

    def launch() -> None:
        product(a, b, out=out)

    return launch


def scaled(tensors: Tensors) -> Launch:
    """fp8 with row scales."""
    a, b, out = tensors["a"], tensors["b"].t(), tensors["out"]
    scale_a, scale_b = tensors["scale_a"][:, None], tensors["scale_b"][None, :]

    def launch() -> None:
        torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=out.dtype, use_fast_accum=True, out=out)

    return launch


def _integer(tensors: Tensors) -> Launch:
    a, b, out = tensors["a"], tensors["b"].t(), tensors["out"]
    scale_a, scale_b = tensors["scale_a"][:, None], tensors["scale_b"][None, :]

    def launch() -> None:
        out.copy_((torch._int_mm(a, b) * scale_a).mul_(scale_b))

    return launch


def _wide(tensors: Tensors, left: str, right: str) -> Launch:
    out = tensors["out"]
    narrow: Tensors = {name: tensors[name] for name in ("a", "scale_a") if name in tensors}
    b = widened(tensors, "b", right).to(out.dtype).transpose(-1, -2)
    product: Callable[..., Any] = torch.mm if out.dim() == 2 else torch.bmm

    def launch() -> None:
        product(widened(narrow, "a", left).to(out.dtype), b, out=out)

    return Holding(launch, (b,))


def product_kernel(op: str, forms: Forms) -> KernelAdapter:
    """PyTorch's kernel of a matrix product."""

    def bind(case: Case, tensors: Tensors) -> Launch:
        branch = branch_of(case, forms)
        if branch in (MM, BMM):
            return plain(tensors)
        if branch == SCALED:
            return scaled(tensors)
        return _integer(tensors) if branch == INTEGER else _wide(tensors, *forms[case.dtype])

    def converts(case: Case) -> bool:
        return branch_of(case, forms).startswith(WIDE) and forms[case.dtype][0] not in PLAIN

    made = torch_kernel(
        op=op,
        dtypes=tuple(forms),
        branch=lambda case: branch_of(case, forms),
        converts=converts,
        # The narrow forms' intermediate values are allocated by the call, though the result is not.
        includes_allocation=any(form not in PLAIN for pair in forms.values() for form in pair),
    )
    return made(bind)


gemm = product_kernel("gemm", products.HALVES)
preshuffle_gemm = product_kernel("preshuffle_gemm", preshuffle_op.FORMS)
fp8_gemm_rowscale = product_kernel("fp8_gemm_rowscale", rowscale_op.FORMS)
blockscale_preshuffle_gemm = product_kernel("blockscale_preshuffle_gemm", blockscale_op.FORMS)
batched_gemm = product_kernel("batched_gemm", batched_op.FORMS)
