"""Knows AITER's model_shapes.json: model -> kernel -> shapes, and how its model benchmarking tool shards them.

The tool (op_tests/op_benchmarks/triton/model_benchmarking_tool/bench_models.py) divides the dimension a GEMM names
in TP_dim, always Dim2 of a MoE GEMM, the heads of rope and attention, and never N of a norm; a result below one is
one. It sweeps batch and sequence lengths; M of everything but attention is their product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from gate.ledgers.draft import Draft
from gate.ledgers.ops import attention
from gate.ledgers.ops.norms import EPS
from gate.ledgers.ops.point import Cell, shard, size
from gate.model.problem import Problem
from gate.model.shape import Source, SourceKind

KIND: SourceKind = "aiter_model_shapes"
# What the tool's kernels take as batches of tokens where the importer is given none.
M_VALUES = (1, 32, 256, 2048, 16384)
BATCHES = (1,)
SEQ_LENS = (4096,)


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """What model_shapes.json leaves open: tokens per step, attention's batches and lengths, and the ranks."""

    m_values: tuple[int, ...] = M_VALUES
    batches: tuple[int, ...] = BATCHES
    seq_lens: tuple[int, ...] = SEQ_LENS
    tp: int = 8


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The drafts of a file, how many each kernel key gave, and what was not understood."""

    drafts: tuple[Draft, ...]
    counts: dict[str, int]
    problems: tuple[Problem, ...] = ()


# One shape of the file and the sweep -> the shapes to measure. Raises KeyError, TypeError or ValueError for an
# entry that lacks a field or has one that is not a positive whole number.
Handler = Callable[[Mapping[str, Any], Sweep], Iterator[Cell]]


class Kernel(msgspec.Struct, frozen=True):
    """A kernel key of the file: the op it belongs to, and how its entries become shapes."""

    op: str
    handler: Handler


def _size(entry: Mapping[str, Any], key: str) -> int:
    return size(entry[key], key)


def _gemm(dtype: str, *, batched: bool = False) -> Handler:
    names = ("B", "N", "K") if batched else ("N", "K")

    def cells(entry: Mapping[str, Any], sweep: Sweep) -> Iterator[Cell]:
        sizes = {name: _size(entry, name) for name in names}
        split = entry.get("TP_dim")
        if isinstance(split, str) and split in sizes:
            sizes[split] = shard(sizes[split], sweep.tp)
        elif split not in (None, "null"):
            raise ValueError(f"TP_dim must be one of {', '.join(names)} or null, not {split!r}")
        for m in sweep.m_values:
            yield Cell(dtype=dtype, args={"M": m, **sizes})

    return cells


def _moe(dtype: str) -> Handler:
    def cells(entry: Mapping[str, Any], sweep: Sweep) -> Iterator[Cell]:
        sizes = {name: _size(entry, name) for name in ("E", "Dim1", "Dim2", "TopK")}
        sizes["Dim2"] = shard(sizes["Dim2"], sweep.tp)
        for m in sweep.m_values:
            yield Cell(dtype=dtype, args={"M": m, **sizes})

    return cells


def _norm(dtype: str) -> Handler:
    def cells(entry: Mapping[str, Any], sweep: Sweep) -> Iterator[Cell]:
        for m in sweep.m_values:
            yield Cell(dtype=dtype, args={"M": m, "N": _size(entry, "N"), "eps": EPS})

    return cells


def _rope(entry: Mapping[str, Any], sweep: Sweep) -> Iterator[Cell]:
    style = str(entry["rotate_style"]).lower()
    if style not in ("neox", "gptj"):
        raise ValueError(f"rotate_style must be neox or gptj, not {style[:40]!r}")
    for m in sweep.m_values:
        for dtype in ("bf16", "f16"):
            args = attention.rope_args(
                tokens=m,
                heads=shard(_size(entry, "num_heads"), sweep.tp),
                kv_heads=shard(_size(entry, "num_kv_heads"), sweep.tp),
                head_dim=_size(entry, "head_dim"),
                style=style,
            )
            yield Cell(
                dtype=dtype,
                args={
                    **args,
                    "two_inputs": _flag(entry, "two_inputs"),
                    "positions": _flag(entry, "positions"),
                },
            )


def _flag(entry: Mapping[str, Any], key: str) -> bool:
    text = str(entry[key]).lower()
    if text not in ("true", "false"):
        raise ValueError(f"{key} must be true or false, not {text[:40]!r}")
    return text == "true"


def _attention(*, decode: bool) -> Handler:
    def cells(entry: Mapping[str, Any], sweep: Sweep) -> Iterator[Cell]:
        heads, kv_heads = shard(_size(entry, "hq"), sweep.tp), shard(_size(entry, "hkv"), sweep.tp)
        optional: dict[str, Any] = {}
        for key in ("sliding_window_left", "sliding_window"):
            if entry.get(key) is not None:
                optional["window"] = _size(entry, key)
        if entry.get("sink"):
            optional["sink"] = True
        if entry.get("block_size") is not None:
            optional["block_size"] = _size(entry, "block_size")
        for batch in sweep.batches:
            for length in sweep.seq_lens:
                args = {
                    "batch": batch,
                    "seq_q": 1 if decode else length,
                    "seq_k": length,
                    "heads": heads,
                    "kv_heads": kv_heads,
                    "dim_qk": _size(entry, "dqk"),
                    "dim_v": _size(entry, "dv"),
                    "causal": True,
                }
                yield Cell(dtype="bf16", args={**args, **optional}, notes=str(entry.get("comment", ""))[:80])

    return cells


KERNELS: Mapping[str, Kernel] = {
    "gemm_a16w16": Kernel("gemm", _gemm("bf16")),
    "gemm_a8w8_per_token_scale": Kernel("fp8_gemm_rowscale", _gemm("fp8")),
    "gemm_a8w8_blockscale": Kernel("blockscale_preshuffle_gemm", _gemm("fp8")),
    "gemm_afp4wfp4": Kernel("preshuffle_gemm", _gemm("fp4")),
    "batched_gemm_a8w8": Kernel("batched_gemm", _gemm("int8", batched=True)),
    "batched_gemm_afp4wfp4": Kernel("batched_gemm", _gemm("fp4", batched=True)),
    "batched_gemm_a16wfp4": Kernel("batched_gemm", _gemm("mixed_a16w4", batched=True)),
    "moe_op_gemm_a8w8": Kernel("moe_gemm", _moe("fp8")),
    "moe_op_gemm_a8w8_blockscale": Kernel("moe_blockscale", _moe("fp8")),
    "moe_op_gemm_a8w4": Kernel("moe_gemm", _moe("mixed_a8w4")),
    "moe_op_gemm_a4w4": Kernel("moe_gemm", _moe("fp4")),
    "rmsnorm": Kernel("rmsnorm", _norm("bf16")),
    "fused_rms_mxfp4_quant": Kernel("fused_rmsnorm_quant", _norm("fp4")),
    "rope": Kernel("fused_rope_cache", _rope),
    "mha": Kernel("flash_attn", _attention(decode=False)),
    "mla": Kernel("mla_decode", _attention(decode=True)),
    "unified_attention": Kernel("unified_attention", _attention(decode=False)),
}


def read(document: Any, *, file: str, sweep: Sweep) -> Imported:
    """Every shape of the parsed file under the sweep. A kernel or an entry that is not understood is a problem
    that names model, kernel and position; nothing is left out in silence.
    """
    drafts: list[Draft] = []
    counts: dict[str, int] = {}
    problems: list[Problem] = []
    for model, name, position, entry in _entries(document, file=file, problems=problems):
        kernel = KERNELS.get(name)
        if kernel is None:
            problems.append(Problem(what=f"{model}: kernel key {name!r} is not known", file=file, fix=_UNKNOWN))
            continue
        try:
            made = [_draft(model, name, kernel, cell, sweep) for cell in kernel.handler(entry, sweep)]
        except KeyError as error:
            problems.append(Problem(what=f"{model}: {name}[{position}] lacks {error.args[0]}", file=file))
        except (TypeError, ValueError) as error:
            problems.append(Problem(what=f"{model}: {name}[{position}]: {error}", file=file))
        else:
            drafts += made
            counts[name] = counts.get(name, 0) + len(made)
    return Imported(drafts=tuple(drafts), counts=counts, problems=tuple(problems))


_UNKNOWN = "add it to KERNELS in gate/ledgers/aiter_model_shapes.py; the other keys are imported"


def _entries(document: Any, *, file: str, problems: list[Problem]) -> Iterator[tuple[str, str, int, Mapping[str, Any]]]:
    """(model, kernel, position, entry) of everything that has the form of one; the rest goes to `problems`."""
    if not isinstance(document, dict):
        problems.append(Problem(what="not an object of models", file=file))
        return
    for model, kernels in document.items():
        if not isinstance(kernels, dict):
            problems.append(Problem(what=f"{model}: not an object of kernels", file=file))
            continue
        for name, entries in kernels.items():
            if not isinstance(entries, list):
                problems.append(Problem(what=f"{model}: {name}: not a list of shapes", file=file))
                continue
            for position, entry in enumerate(entries):
                if isinstance(entry, dict):
                    yield model, name, position, entry
                else:
                    problems.append(Problem(what=f"{model}: {name}[{position}]: not an object", file=file))


def _draft(model: str, name: str, kernel: Kernel, cell: Cell, sweep: Sweep) -> Draft:
    return Draft(
        op_type=kernel.op,
        model=model,
        stage="model_config",
        dtype=cell.dtype,
        args=cell.args,
        kernel_name=name,
        source=Source(kind=KIND, file="model_shapes.json", notes=f"TP {sweep.tp}"),
        notes=cell.notes,
    )
