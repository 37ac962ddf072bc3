"""Knows which operators of torch, SGLang, vLLM and AITER mean which ledger op, and how their inputs give its shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gate.ledgers.ops.attention import attention_args
from gate.ledgers.ops.norms import EPS
from gate.ledgers.ops.point import Args, Cell, size

DTYPES: Mapping[str, str] = {
    "c10::BFloat16": "bf16",
    "c10::Half": "f16",
    "float": "f32",
    "double": "f64",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "signed char": "int8",
}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One operator call: the dimensions, types and scalar values of its inputs, by position."""

    dims: list[Any]
    types: list[str]
    values: list[str]

    def tensor(self, index: int, *, rank: int | None = None) -> list[int]:
        """The dimensions of an input. Raises ValueError if they are not recorded, Unfit if it has another rank."""
        found = self.dims[index] if index < len(self.dims) else None
        if not isinstance(found, list) or not found:
            raise ValueError(f"input {index} has no recorded dimensions")
        if rank is not None and len(found) != rank:
            raise Unfit(f"input {index} has {len(found)} dimensions, not {rank}")
        if 0 in found:
            raise Unfit(f"input {index} is empty")
        return [size(each, f"a dimension of input {index}") for each in found]

    def dtype(self, index: int) -> str:
        """The ledger's name of an input's type. Raises Unfit for one that has none."""
        kind = self.types[index] if index < len(self.types) else ""
        if kind not in DTYPES:
            raise Unfit(f"input {index} has type {kind[:40]!r}")
        return DTYPES[kind]


class Unfit(ValueError):
    """The call is sound, but its shapes or types are not those of the ledger op."""


Operator = Callable[[Call], tuple[str, Cell]]


def _rows(sizes: list[int]) -> tuple[int, int]:
    return math.prod(sizes[:-1]), sizes[-1]


def _product(first: int, op: str = "gemm") -> Operator:
    """`A[M, K] @ B[K, N]` whose A is input `first`."""

    def shape(call: Call) -> tuple[str, Cell]:
        (m, k), (inner, n) = call.tensor(first, rank=2), call.tensor(first + 1, rank=2)
        if k != inner:
            raise Unfit(f"inner dimensions {k} and {inner} differ")
        return op, Cell(dtype=call.dtype(first), args={"M": m, "N": n, "K": k})

    return shape


def _batched(first: int) -> Operator:
    def shape(call: Call) -> tuple[str, Cell]:
        (b, m, k), (_, _, n) = call.tensor(first, rank=3), call.tensor(first + 1, rank=3)
        return "batched_gemm", Cell(dtype=call.dtype(first), args={"B": b, "M": m, "N": n, "K": k})

    return shape


def _row_op(op: str, index: int = 0, **more: float | str) -> Operator:
    """An op over the last axis of input `index`."""

    def shape(call: Call) -> tuple[str, Cell]:
        m, n = _rows(call.tensor(index))
        return op, Cell(dtype=call.dtype(index), args={"M": m, "N": n, **more})

    return shape


def _addition(call: Call) -> tuple[str, Cell]:
    left, right = call.tensor(0), call.dims[1] if len(call.dims) > 1 else None
    if left != right:
        raise Unfit("not element by element")
    return "vec_add", Cell(dtype=call.dtype(0), args={"N": math.prod(left)})


def _attention(call: Call) -> tuple[str, Cell]:
    """`Q[batch, heads, seq, dim]`, K and V alike."""
    (batch, heads, seq_q, dim), keys, values = (call.tensor(index, rank=4) for index in range(3))
    args = attention_args(
        batch=batch,
        seq_q=seq_q,
        seq_k=keys[2],
        heads=heads,
        kv_heads=keys[1],
        dim_qk=dim,
        dim_v=values[3],
        causal=any(value == "True" for value in call.values),
    )
    return "flash_attn", Cell(dtype=call.dtype(0), args=args)


def _gating(logits: int) -> Operator:
    def shape(call: Call) -> tuple[str, Cell]:
        tokens, experts = call.tensor(logits, rank=2)
        args: Args = {"num_tokens": tokens, "num_experts": experts, "topk": call.tensor(0, rank=2)[1]}
        return "topk_gating_softmax", Cell(dtype=call.dtype(logits), args=args)

    return shape


def _expert_sum(call: Call) -> tuple[str, Cell]:
    tokens, topk, width = call.tensor(0, rank=3)
    return "moe_reduce", Cell(dtype=call.dtype(0), args={"num_tokens": tokens, "topk": topk, "model_dim": width})


_RMSNORM = _row_op("rmsnorm", eps=EPS)
# The second input is the one that is normalised where the first receives the result.
_RMSNORM_OUT = _row_op("rmsnorm", 1, eps=EPS)
OPERATORS: Mapping[str, Operator] = {
    "aten::mm": _product(0),
    "aten::addmm": _product(1),
    "aten::_scaled_mm": _product(0, "fp8_gemm_rowscale"),
    "aten::bmm": _batched(0),
    "aten::baddbmm": _batched(1),
    "aten::_softmax": _row_op("softmax"),
    "aten::native_layer_norm": _row_op("layernorm", eps=EPS),
    "aten::_fused_rms_norm": _RMSNORM,
    "aten::rms_norm": _RMSNORM,
    "aten::add": _addition,
    "aten::add_": _addition,
    "aten::_scaled_dot_product_flash_attention": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "sgl_kernel::rmsnorm": _RMSNORM_OUT,
    "sgl_kernel::fused_add_rmsnorm": _RMSNORM,
    "sgl_kernel::topk_softmax": _gating(2),
    "vllm::rms_norm": _RMSNORM_OUT,
    "_C::rms_norm": _RMSNORM_OUT,
    "_C::fused_add_rms_norm": _RMSNORM,
    "_moe_C::topk_softmax": _gating(3),
    "aiter::rms_norm": _RMSNORM,
    "aiter::rmsnorm2d_fwd": _RMSNORM,
    "aiter::layernorm2d_fwd": _row_op("layernorm", eps=EPS),
    "aiter::topk_softmax": _gating(3),
    "aiter::moe_sum": _expert_sum,
}
# Operators that only hand over to one of the above, or move and allocate: counting them would count twice.
ENCLOSED = frozenset(
    {
        "aten::linear",
        "aten::matmul",
        "aten::softmax",
        "aten::layer_norm",
        "aten::scaled_dot_product_attention",
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::view",
        "aten::reshape",
        "aten::_unsafe_view",
        "aten::_reshape_alias",
        "aten::as_strided",
        "aten::t",
        "aten::transpose",
        "aten::permute",
        "aten::expand",
        "aten::select",
        "aten::slice",
        "aten::unsqueeze",
        "aten::squeeze",
        "aten::resolve_conj",
        "aten::resolve_neg",
        "aten::detach",
        "detach",
    }
)
