"""Triton matrix products, of 16-bit and of narrow operands."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
import triton

from gate.replay import products
from gate.replay.op import Case, Tensors
from gate.replay.ops import batched_gemm as batched_op
from gate.replay.ops import blockscale_preshuffle_gemm as blockscale_op
from gate.replay.ops import fp8_gemm_rowscale as rowscale_op
from gate.replay.ops import preshuffle_gemm as preshuffle_op
from gate.replay.products import Forms
from gate.replay.provider import KernelAdapter
from gate.replay.providers.triton import tiles, tuning
from gate.replay.providers.triton.calls import Call
from gate.replay.providers.triton.kernels import gemm as kernels
from gate.replay.providers.triton.tuning import Config, tuned_kernel

JOIN_BLOCK = 1024
BULK_FROM_ROWS = 128
LOCKS = 65536
# What the kernel calls a form of a, and of b.
LEFT = {"bf16": "plain", "f16": "plain", "fp8_rows": "rows", "int8_rows": "rows", "fp8_groups": "grouped"}
LEFT |= {"fp4_mx": "mx4", "fp8_mx": "mx8"}
RIGHT = {"fp8_blocks": "blocks", "fp4_mx": "mx4"}


def kernel_forms(left: str, right: str) -> tuple[str, str]:
    """The forms of gate.replay.quantised as the kernels name them."""
    if right == "fp4_mx" and left in ("bf16", "f16"):
        return "wide", "mx4"
    return LEFT[left], RIGHT.get(right, "plain")


@functools.cache
def source(module: Any) -> str:
    """A module's source, which a kept choice depends on."""
    return inspect.getsource(module)


def _sizes(case: Case) -> tuple[int, int, int, int]:
    batch = case.dim("B") if "B" in case.args else 1
    return batch, case.dim("M"), case.dim("N"), case.dim("K")


def _configs(case: Case, a: str, b: str) -> list[Config]:
    batch, m, n, k = _sizes(case)
    limits = {"BK": 128} if "blocks" in b else {}
    width, narrow, grouped = 2 if a == "plain" else 1, b == "mx4", a == "grouped"
    found = tiles.split_configs(m, n, k, width=width, narrow=narrow, grouped=grouped, batch=batch, **limits)
    if case.op_type == "gemm" and tiles.bulk_copies() and m > BULK_FROM_ROWS and n % 8 == 0 and k % 8 == 0:
        found += tiles.bulk_tiles(m)
    return found


def _bulk_call(a: Any, b: Any, out: Any, options: Config) -> Call:
    from triton.tools.tensor_descriptor import TensorDescriptor

    def described(tensor: Any, *block: str) -> Any:
        shape = [options[name] for name in block]
        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), shape)

    (m, k), n = a.shape, b.shape[0]
    count = triton.cdiv(m, options["BM"]) * triton.cdiv(n, options["BN"])
    places = (described(a, "BM", "BK"), described(b, "BN", "BK"), described(out, "BM", "BN"))
    return Call(
        function=kernels.gemm_tma, arguments=(*places, m, n, k), grid=(min(count, tuning.units()),), options=options
    )


def _calls(case: Case, tensors: Tensors, a: str, b: str, config: Config) -> list[Call]:
    """The launches of one product with one config."""
    batch, m, n, k = _sizes(case)
    options = {name: value for name, value in config.items() if name not in ("split", "NATIVE")}
    split = config["split"]
    left, right, out = tensors["a"], tensors["b"], tensors["out"]
    if split == 0:
        return [_bulk_call(left, right, out, options)]
    count = triton.cdiv(m, config["BM"]) * triton.cdiv(n, config["BN"])
    if split == 1 and a == "plain" and batch == 1:
        return [Call(function=kernels.gemm, arguments=(left, right, out, m, n, k), grid=(count,), options=options)]
    # An AMD GPU's dies see each other's writes in order only between two kernels.
    join = "none" if split == 1 else "later" if tiles.on_amd() else "last"
    parts = locks = None
    if split > 1:
        place = str(out.device)
        parts = tuning.workspace("parts", batch * split * m * n, torch.float32, place)
        locks = tuning.workspace("locks", max(LOCKS, batch * count), torch.int32, place)
    arguments = (left, right, tensors.get("scale_a"), tensors.get("scale_b"), out, parts, locks, m, n, k, split)
    options |= {"A": a, "B": b, "NATIVE": config["NATIVE"], "JOIN": join}
    calls = [Call(function=kernels.product, arguments=arguments, grid=(count, split, batch), options=options)]
    if join == "later":
        grid = (triton.cdiv(m * n, JOIN_BLOCK), batch)
        calls.append(
            Call(function=kernels.join, arguments=(parts, out, m * n, split), grid=grid, options={"BLOCK": JOIN_BLOCK})
        )
    return calls


def product_kernel(op: str, forms: Forms, *, detail: str) -> KernelAdapter:
    """The Triton kernel of a matrix product."""

    def named(case: Case) -> tuple[str, str]:
        return kernel_forms(*forms[case.dtype])

    return tuned_kernel(
        op=op,
        dtypes=tuple(forms),
        detail=detail,
        configs=lambda case: _configs(case, *named(case)),
        calls=lambda case, tensors, config: _calls(case, tensors, *named(case), config),
        key=lambda case: (case.dtype, *_sizes(case), source(kernels)),
    )


gemm = product_kernel(
    "gemm",
    products.HALVES,
    detail="tiled product in grouped order; K split over programs for few rows, bulk copies on Hopper for many",
)
preshuffle_gemm = product_kernel(
    "preshuffle_gemm",
    preshuffle_op.FORMS,
    detail="tiled product of weights as they arrive, K split for few rows; fp4 natively on CDNA 4, else as bf16",
)
fp8_gemm_rowscale = product_kernel(
    "fp8_gemm_rowscale", rowscale_op.FORMS, detail="tiled product, K split for few rows, scales applied at the end"
)
blockscale_preshuffle_gemm = product_kernel(
    "blockscale_preshuffle_gemm",
    blockscale_op.FORMS,
    detail="tiled product of weights as they arrive, scales applied to each 128 of K, K split for few rows",
)
batched_gemm = product_kernel(
    "batched_gemm",
    batched_op.FORMS,
    detail="tiled product with one grid axis over the batch; fp4 natively on CDNA 4, else as bf16",
)
