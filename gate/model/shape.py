"""What one ledger row is, and how its identity is made."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii
from typing import Annotated, Any, Literal, get_args

import msgspec

Stage = Literal["prefill", "decode", "mixed", "synthetic", "diagnostic", "model_config"]
SourceKind = Literal[
    "aiter_model_shapes",
    "sglang_trace",
    "atom_workload",
    "manual",
    "synthetic",
    "diagnostic",
    "model_config",
]
STAGES: tuple[str, ...] = get_args(Stage)

# Rows of these stages never carry a promotion: no model or serving trace uses the shape.
UNREAL_STAGES = frozenset({"synthetic", "diagnostic"})

ArgValue = int | float | str | bool | None

# An op names folders and files: a plain identifier. `(?!\n)` since `$` alone lets a line end follow.
OpName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_]+$(?!\n)", max_length=64)]
# Element types of a ledger, in the short and the long spelling of those that have both; `mixed_a8w4` is a product of
# 8-bit activations and 4-bit weights.
DTYPES: tuple[str, ...] = (
    "bf16", "bfloat16", "f16", "fp16", "float16", "f32", "fp32", "float32", "f64", "fp64", "float64",
    "fp8", "bf8", "fp6", "bf6", "fp4", "mxfp8", "mxfp6", "mxfp4", "int8", "i8", "uint8", "u8", "int4", "i4",
    "int16", "i16", "int32", "i32", "int64", "i64", "mixed_a16w4", "mixed_a16w8", "mixed_a8w4",
)  # fmt: skip
# Arguments that count something: dimensions, lengths, heads, experts.
SIZES: frozenset[str] = frozenset((
    "B", "M", "N", "K", "E", "Dim1", "Dim2", "TopK", "batch", "block_size", "concurrency", "dim_qk", "dim_v",
    "head_dim", "heads", "input_len", "kv_heads", "max_pos", "model_dim", "num_experts", "num_heads",
    "num_kv_heads", "num_tokens", "output_len", "seq_k", "seq_len", "seq_q", "topk", "unit_size", "window",
))  # fmt: skip
# No dimension of a kernel is larger; a source that says so is damaged.
LARGEST = 2**40


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where a shape comes from. Lengths are in tokens, `concurrency` in requests."""

    kind: SourceKind
    file: str | None = None
    input_len: int | None = None
    output_len: int | None = None
    concurrency: int | None = None
    notes: str | None = None


class Weight(msgspec.Struct, frozen=True, kw_only=True):
    """How much the shape counts in production; all null until a serving trace fills them."""

    occurrences: int | None = None
    traffic_weight: float | None = None
    baseline_time_weight: float | None = None

    @property
    def value(self) -> float | None:
        """The weight of the weighted geomean: baseline_time_weight, else traffic_weight, else none."""
        return self.traffic_weight if self.baseline_time_weight is None else self.baseline_time_weight


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One ledger row: a shape that a model or a serving trace really uses (or a probe that says so)."""

    shape_id: str
    op_type: OpName
    kernel_name: str
    model: str
    stage: Stage
    arch: str
    gpu: str
    dtype: str
    layout: dict[str, Any]
    args: dict[str, ArgValue]
    source: Source
    weight: Weight
    baselines_available: tuple[str, ...]
    notes: str


def fault(*, op_type: str, dtype: str, args: Mapping[str, ArgValue]) -> str:
    """What no kernel has: an op name that is no plain identifier, an unknown dtype, a size that is not a whole number
    from 1 to `LARGEST`, another number beyond it. Empty if there is no such thing.
    """
    if len(op_type) > 64 or not re.fullmatch("[a-z0-9_]+", op_type):
        return f"op_type {op_type[:40]!r} is not a plain name of a-z, 0-9 and _"
    if dtype not in DTYPES:
        return f"{dtype[:40]!r} is not a dtype; {', '.join(DTYPES)} are"
    for name, value in args.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if name in SIZES and not (number and 1 <= value <= LARGEST and value == int(value)):  # type: ignore[operator,arg-type]
            return f"{name} is {str(value)[:40]!r}, not a positive whole number up to 2^40"
        if number and not -LARGEST <= value <= LARGEST:  # type: ignore[operator]
            return f"{name[:40]} is {str(value)[:40]}, more than 2^40"
    return ""


def canonical(value: Any) -> str:
    """The canonical JSON of a value: sorted keys, no blanks, ASCII, integral floats written as integers.

    Equal to `json.dumps` with those settings, and several times faster, which a ledger of a million rows notices.
    Raises ValueError for NaN or infinity and TypeError for what JSON has no form for.
    """
    # The commonest kinds first; asking whether something is a Mapping takes longer than all the rest.
    kind = type(value)
    if kind is int:
        return int.__repr__(value)
    if kind is str:
        return encode_basestring_ascii(value)
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} is not JSON compliant")
        return str(int(value)) if value.is_integer() else float.__repr__(value)
    if kind is dict or isinstance(value, Mapping):
        pairs = [f"{encode_basestring_ascii(key)}:{canonical(value[key])}" for key in sorted(value)]
        return "{" + ",".join(pairs) + "}"
    if value is None or kind is bool:
        return _CONSTANTS[value]
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([canonical(item) for item in value]) + "]"
    raise TypeError(f"{kind.__name__} is not JSON compliant")


_CONSTANTS: dict[Any, str] = {None: "null", True: "true", False: "false"}


def compute_shape_id(
    *,
    op_type: str,
    model: str,
    stage: str,
    dtype: str,
    layout: Mapping[str, Any],
    args: Mapping[str, Any],
) -> str:
    """The identity of a shape: `sha1:` and 16 hex digits of SHA-1 over its canonical JSON.

    The rule is fixed by the ledger contract; integral floats are written as integers, so that 8192 and 8192.0 are
    one shape. Raises ValueError for NaN or infinity.
    """
    text = (
        f'{{"args":{canonical(args)},"dtype":{encode_basestring_ascii(dtype)},"layout":{canonical(layout)},'
        f'"model":{encode_basestring_ascii(model)},"op_type":{encode_basestring_ascii(op_type)},'
        f'"stage":{encode_basestring_ascii(stage)}}}'
    )
    return "sha1:" + hashlib.sha1(text.encode("ascii"), usedforsecurity=False).hexdigest()[:16]


def expected_id(shape: Shape) -> str:
    """The id that the shape's own fields give."""
    return compute_shape_id(
        op_type=shape.op_type,
        model=shape.model,
        stage=shape.stage,
        dtype=shape.dtype,
        layout=shape.layout,
        args=shape.args,
    )


def order_key(shape: Shape) -> tuple[str, str, str, float, float, str]:
    """The stable order of a ledger: op_type, stage, dtype, N, M, shape_id; a missing N or M sorts first."""
    return (
        shape.op_type,
        shape.stage,
        shape.dtype,
        _number(shape.args.get("N")),
        _number(shape.args.get("M")),
        shape.shape_id,
    )


def _number(value: ArgValue) -> float:
    return float(value) if isinstance(value, (int, float)) else -1.0
