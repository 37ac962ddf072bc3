"""The least time a GPU needs for a shape: bytes that must move over peak bandwidth, operations over dense peak."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from gate.model.outcome import AnyOutcome
from gate.model.shape import Shape


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """Peaks from the makers' data sheets, dense: bytes a second, 16-bit and 8-bit operations a second, cache bytes."""

    bytes_per_s: float
    flops_16: float
    flops_8: float
    flops_4: float
    cache_bytes: float
    cus: int


# AMD Instinct MI350X/MI355X and MI300X, NVIDIA H200/H100 data sheets; cache is L2 plus Infinity Cache.
GPUS: dict[str, Gpu] = {
    "MI350X": Gpu(bytes_per_s=8.0e12, flops_16=2.31e15, flops_8=4.61e15, flops_4=9.23e15, cache_bytes=288e6, cus=256),
    "MI355X": Gpu(bytes_per_s=8.0e12, flops_16=2.52e15, flops_8=5.03e15, flops_4=10.1e15, cache_bytes=288e6, cus=256),
    "MI300X": Gpu(bytes_per_s=5.3e12, flops_16=1.31e15, flops_8=2.61e15, flops_4=2.61e15, cache_bytes=260e6, cus=304),
    "H200": Gpu(bytes_per_s=4.8e12, flops_16=0.99e15, flops_8=1.98e15, flops_4=1.98e15, cache_bytes=60e6, cus=132),
    "H100": Gpu(bytes_per_s=3.35e12, flops_16=0.99e15, flops_8=1.98e15, flops_4=1.98e15, cache_bytes=50e6, cus=132),
}
ELEMENT_BYTES: dict[str, float] = {
    "f32": 4, "fp32": 4, "float32": 4, "bf16": 2, "f16": 2, "fp16": 2, "float16": 2, "bfloat16": 2,
    "fp8": 1, "int8": 1, "i8": 1, "fp4": 0.5, "int4": 0.5, "mxfp4": 0.5,
}  # fmt: skip
NORMS, CODED = ("rmsnorm", "layernorm"), ("dynamic", "smooth")
COLD = frozenset({"cold_hbm", "l2_flushed_graph"})


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Lower bounds of what a shape costs: bytes from and to memory, matrix operations."""

    bytes: float
    flops: float = 0.0


@lru_cache(maxsize=64)
def gpu(name: str | None) -> Gpu | None:
    """The GPU whose name appears in `name`, else None."""
    text = (name or "").upper()
    return next((entry for word, entry in GPUS.items() if word in text), None)


def _rows(args: Mapping[str, Any], size: float) -> Work:
    return Work(bytes=2 * args["M"] * args["N"] * size)


def _passes(whole: int, *, codes: int = 0) -> Callable[[Mapping[str, Any], float], Work]:
    """Rows of which `whole` tensors of M by N pass in the op's dtype, and `codes` of one byte an element."""
    return lambda args, size: Work(bytes=args["M"] * args["N"] * (whole * size + codes))


def _gemm(args: Mapping[str, Any], size: float) -> Work:
    m, n, k = args["M"], args["N"], args["K"]
    # The output has two bytes or more an element whatever the inputs' type.
    return Work(bytes=(m * k + n * k) * size + m * n * max(size, 2), flops=2.0 * m * n * k)


def _vec_add(args: Mapping[str, Any], size: float) -> Work:
    return Work(bytes=3 * args.get("M", 1) * args["N"] * size)


def _topk_gating(args: Mapping[str, Any], size: float) -> Work:
    tokens = args["num_tokens"]
    return Work(bytes=tokens * (args["num_experts"] * size + 8 * args["topk"]))


def _moe_gemm(args: Mapping[str, Any], size: float) -> Work:
    m, hidden, inter, top = args["M"], args["Dim1"], args["Dim2"], args["TopK"]
    # One token activates TopK experts; more tokens may all choose the same ones. Dim2 holds gate and up together.
    weights = top * hidden * (inter + inter / 2)
    return Work(
        bytes=weights * size + 2 * m * hidden * min(size, 2), flops=2.0 * m * top * hidden * (inter + inter / 2)
    )


def _rope_cache(args: Mapping[str, Any], size: float) -> Work:
    tokens, dim, heads, kv = args["seq_len"], args["head_dim"], args["num_heads"], args["num_kv_heads"]
    return Work(bytes=tokens * dim * size * (2 * heads + 4 * kv))


MODELS: dict[str, Callable[[Mapping[str, Any], float], Work]] = {
    "rmsnorm": _rows,
    "layernorm": _rows,
    "softmax": _rows,
    "quant": _passes(1, codes=1),
    "fused_add_rmsnorm": _passes(4),
    "layernorm_fused_add": _passes(4),
    "rmsnorm_bwd": _passes(3),
    **{f"{norm}_{kind}quant": _passes(1, codes=1) for norm in NORMS for kind in CODED},
    **{f"{norm}_fused_add_{kind}quant": _passes(3, codes=1) for norm in NORMS for kind in CODED},
    "gemm": _gemm,
    "vec_add": _vec_add,
    "topk_gating_softmax": _topk_gating,
    "moe_gemm": _moe_gemm,
    "fused_rope_cache": _rope_cache,
}


def work(shape: Shape) -> Work | None:
    """The lower bounds of a shape, None where its op or dtype has no model."""
    model, size = MODELS.get(shape.op_type), ELEMENT_BYTES.get(shape.dtype.lower())
    if model is None or size is None:
        return None
    try:
        result = model(shape.args, size)
    except (KeyError, TypeError):
        return None
    return result if math.isfinite(result.bytes) and result.bytes > 0 else None


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The least microseconds of a shape on one GPU: from memory if it is cold, and from its operations alone."""

    cold_us: float
    hot_us: float

    def of(self, outcome: AnyOutcome) -> float:
        """The bound that holds for a row's cache state."""
        return self.cold_us if outcome.cache_state in COLD else self.hot_us


def bound(shape: Shape, gpu_name: str | None) -> Bound | None:
    """The bounds of a shape on a GPU, None where either is unknown.

    A footprint that fits twice into the caches may never reach memory unless the row is cold.
    """
    device, cost = gpu(gpu_name), work(shape)
    if device is None or cost is None:
        return None
    size = ELEMENT_BYTES[shape.dtype.lower()]
    peak = device.flops_16 if size >= 2 else device.flops_8 if size >= 1 else device.flops_4
    operations, memory = cost.flops / peak * 1e6, cost.bytes / device.bytes_per_s * 1e6
    streams = cost.bytes > 2 * device.cache_bytes
    return Bound(cold_us=max(operations, memory), hot_us=max(operations, memory) if streams else operations)


def share_of_peak(shape: Shape, outcome: AnyOutcome) -> float | None:
    """The bound over the measured time: 1 is a kernel at the roofline."""
    found = bound(shape, outcome.gpu)
    if found is None or outcome.median_us is None or outcome.median_us <= 0:
        return None
    return found.of(outcome) / outcome.median_us or None
