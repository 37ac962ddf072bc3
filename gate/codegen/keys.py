"""Knows which code a ledger shape needs: its compile key, or the kernel's own reason for having none.

Code depends on constexprs, rank and dtype and not on M, so many shapes share one key. One entry in `OPS` per op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from gate.binding.families.kernel import Part
from gate.model.codegen import Constexpr
from gate.model.shape import Shape

ITEM_BYTES: Mapping[str, int] = {"bf16": 2, "f16": 2, "f32": 4}
THREADS = 256
# Registers per lane that the row kernels give to the row itself; the other half is for everything else.
ROW_REGISTERS = 128
RMSNORM_EPS = 1e-5
BUFFER_BYTES = 2**32


class CompileCase(msgspec.Struct, frozen=True, kw_only=True):
    """What the compiler must be asked: a readable key, and the op, dtype and constexprs it stands for.

    `parts` are the launches of a checkout's kernel (a kernel of the gate's own needs none), `source_sha` the hash of
    the files that such a kernel can reach.
    """

    compile_key: str
    op_type: str
    dtype: str
    constexprs: dict[str, Constexpr]
    parts: tuple[Part, ...] = ()
    source_sha: str | None = None


class Unsupported(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels have no code for a shape; `reason` is the constraint in words.

    `no_kernel` tells an op that these kernels lack altogether from a shape that a kernel refuses.
    """

    op_type: str
    dtype: str
    reason: str
    no_kernel: bool = False


class _Refusal(Exception):
    """Carries a constraint from an op's entry to `compile_case`, which turns it into data."""


def compile_case(shape: Shape) -> CompileCase | Unsupported:
    """Return the case whose code serves this shape, or the reason there is none. Never raises for a shape."""
    entry = OPS.get(shape.op_type)
    if entry is None:
        reason = f"no kernel for {shape.op_type}: the ops are {', '.join(sorted(OPS))}"
        return Unsupported(op_type=shape.op_type, dtype=shape.dtype, reason=reason, no_kernel=True)
    try:
        constexprs = entry(shape.dtype, shape.args)
    except _Refusal as refusal:
        return Unsupported(op_type=shape.op_type, dtype=shape.dtype, reason=str(refusal))
    values = ",".join(f"{name}={value}" for name, value in constexprs.items())
    return CompileCase(
        compile_key=f"{shape.op_type}/{shape.dtype}/{values}",
        op_type=shape.op_type,
        dtype=shape.dtype,
        constexprs=constexprs,
    )


def unique_cases(cases: Iterable[CompileCase]) -> tuple[CompileCase, ...]:
    """One case per compile key, in the order of first appearance."""
    first: dict[str, CompileCase] = {}
    for case in cases:
        first.setdefault(case.compile_key, case)
    return tuple(first.values())


def _size(args: Mapping[str, object], name: str) -> int:
    value = args.get(name)
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not whole or value < 1:
        raise _Refusal(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def _item_bytes(dtype: str, allowed: tuple[str, ...]) -> int:
    if dtype not in allowed:
        raise _Refusal(f"dtype {dtype}: the kernel is written for {', '.join(allowed)}")
    return ITEM_BYTES[dtype]


def _addressable(**tensors: int) -> None:
    for name, size in tensors.items():
        if size >= BUFFER_BYTES:
            raise _Refusal(f"{name} takes {size} bytes: buffer instructions reach less than {BUFFER_BYTES}")


def _vector_width(n: int, item_bytes: int) -> int:
    width = 16 // item_bytes
    return width if n % width == 0 else 1


def _fits_registers(n: int, registers_per_element: float) -> None:
    limit = int(THREADS * ROW_REGISTERS / registers_per_element)
    if n > limit:
        raise _Refusal(f"N={n}: a workgroup of {THREADS} holds the row in registers, at most {limit} elements")


def _rmsnorm(dtype: str, args: Mapping[str, object]) -> dict[str, Constexpr]:
    item = _item_bytes(dtype, ("bf16", "f16", "f32"))
    m, n = _size(args, "M"), _size(args, "N")
    # Vectors keep 16-bit elements packed in pairs; element by element each takes a register of its own.
    _fits_registers(n, item / 4 if _vector_width(n, item) > 1 else 1)
    _addressable(X=m * n * item)
    eps = args.get("eps", RMSNORM_EPS)
    if isinstance(eps, bool) or not isinstance(eps, (int, float)):
        raise _Refusal(f"eps must be a number, got {eps!r}")
    return {"N": n} if eps == RMSNORM_EPS else {"N": n, "eps": float(eps)}


def _softmax(dtype: str, args: Mapping[str, object]) -> dict[str, Constexpr]:
    item = _item_bytes(dtype, ("bf16", "f16", "f32"))
    m, n = _size(args, "M"), _size(args, "N")
    _fits_registers(n, 1)
    _addressable(X=m * n * item)
    return {"N": n}


def _gemm(dtype: str, args: Mapping[str, object]) -> dict[str, Constexpr]:
    item = _item_bytes(dtype, ("bf16", "f16"))
    m, n, k = _size(args, "M"), _size(args, "N"), _size(args, "K")
    if k % 64:
        raise _Refusal(f"K={k}: the loop steps by 64 elements of K")
    if n % 64:
        raise _Refusal(f"N={n}: a tile is 64 or 128 columns wide")
    _addressable(A=m * k * item, B=n * k * item, C=m * n * item)
    # A tile of 128 rows would be three quarters empty for a decode batch.
    return {"K": k, "block_m": 32 if m <= 32 else 128, "block_n": 64 if n % 128 else 128, "block_k": 64}


def _vec_add(dtype: str, args: Mapping[str, object]) -> dict[str, Constexpr]:
    item = _item_bytes(dtype, ("bf16", "f16", "f32"))
    n = _size(args, "N")
    _addressable(A=n * item)
    return {"width": _vector_width(n, item)}


OPS: Mapping[str, Callable[[str, Mapping[str, object]], dict[str, Constexpr]]] = {
    "rmsnorm": _rmsnorm,
    "softmax": _softmax,
    "gemm": _gemm,
    "vec_add": _vec_add,
}
