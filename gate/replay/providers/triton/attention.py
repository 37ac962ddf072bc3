"""Triton attention kernels with the tiles and splits that fit each shape."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton

from gate.replay import attention
from gate.replay.op import Case, Tensors
from gate.replay.providers.triton.calls import Call, triton_kernel
from gate.replay.providers.triton.common import HALVES
from gate.replay.providers.triton.kernels import attention as kernels

LOG2_E = math.log2(math.e)
DTYPES = (*HALVES, "fp8")
# Programs that keep every core busy with some to spare; no GPU that is served has more than 304 cores.
PROGRAMS = 512
MAX_SPLITS = 64
PAGED_BLOCK, LATENT_BLOCK = 64, 32
MIN_TILE = 16


def _padded(size: int) -> int:
    """The least tile that a matrix unit takes and that holds `size`."""
    return max(int(triton.next_power_of_2(size)), MIN_TILE)


def _scale(case: Case) -> float:
    return LOG2_E / math.sqrt(case.dim("dim_qk"))


def _depths(case: Case) -> dict[str, int]:
    wide, deep = case.dim("dim_v"), case.dim("dim_qk")
    return {"DQ": deep, "DQ2": _padded(deep), "DV": wide, "DV2": _padded(wide)}


def _flash_options(case: Case) -> dict[str, Any]:
    rows = 128 if case.dim("seq_q") > 64 else 64
    large = _padded(case.dim("dim_qk")) > 128
    stages = (1 if large else 2) if torch.version.hip else (2 if large else 3)
    return {
        **_depths(case),
        "CAUSAL": bool(case.args.get("causal", True)),
        "WINDOW": bool(case.args.get("window")),
        "WIDE": case.dtype == "fp8",
        "BM": rows,
        "BN": 64,
        "num_warps": rows // 16,
        "num_stages": stages,
    }


@triton_kernel(
    op="flash_attn",
    dtypes=DTYPES,
    detail="online softmax, one block of queries a program; fp8 is multiplied in f16",
)
def flash_attn(case: Case, tensors: Tensors) -> Call:
    options = _flash_options(case)
    sizes = (case.dim(name) for name in ("seq_q", "seq_k", "heads", "kv_heads"))
    return Call(
        function=kernels.flash,
        arguments=(
            *(tensors[name] for name in ("q", "k", "v", "out")),
            _scale(case),
            *sizes,
            int(case.args.get("window") or 0),
        ),
        grid=(triton.cdiv(case.dim("seq_q"), options["BM"]), case.dim("batch") * case.dim("heads")),
        options=options,
    )


def _spans(keys: int, *, others: int, block: int) -> tuple[int, int]:
    """Into how many spans the keys are split, and keys a span: enough programs to fill a GPU, whole blocks each."""
    wanted = max(1, min(MAX_SPLITS, PROGRAMS // max(others, 1), triton.cdiv(keys, 4 * block)))
    per_split = triton.cdiv(triton.cdiv(keys, wanted), block) * block
    return triton.cdiv(keys, per_split), per_split


def _between(case: Case, out: Any, *, groups: int, splits: int, padded: int) -> tuple[Any, Any]:
    """Partial results and their (largest score, sum), of every span."""
    places = case.dim("batch") * groups * splits * padded
    make = {"dtype": torch.float32, "device": out.device}
    return torch.empty((places, case.dim("dim_v")), **make), torch.empty((places, 2), **make)


def _merge(case: Case, out: Any, between: tuple[Any, Any], *, groups: int, splits: int, padded: int) -> Call:
    """The last step: the spans put together. A row is a query and a head of the group."""
    share, queries, wide = case.dim("heads") // groups, int(case.args.get("seq_q", 1)), case.dim("dim_v")
    spans = int(triton.next_power_of_2(splits))
    return Call(
        function=kernels.merge,
        arguments=(*between, out, splits, case.dim("heads"), share, share * queries, queries),
        grid=(case.dim("batch"), groups, share * queries),
        options={"DV": wide, "DV2": _padded(wide), "ROWS": padded, "SPLITS": spans, "num_warps": 4},
    )


@triton_kernel(
    op="pa_decode",
    dtypes=DTYPES,
    detail="split along the keys, then put together; fp8 is multiplied in the queries' dtype",
)
def pa_decode(case: Case, tensors: Tensors) -> tuple[Call, ...]:
    groups, queries, window = case.dim("kv_heads"), case.dim("seq_q"), int(case.args.get("window") or 0)
    padded = _padded(case.dim("heads") // groups * queries)
    # A window may begin inside a block.
    keys = attention.reach(case) + (queries - 1 + PAGED_BLOCK if window else 0)
    splits, per_split = _spans(keys, others=case.dim("batch") * groups, block=PAGED_BLOCK)
    between = _between(case, tensors["out"], groups=groups, splits=splits, padded=padded)
    names = ("q", "key_cache", "value_cache", "block_tables", "context_lens", "key_scale", "value_scale")
    pages = tensors["block_tables"].shape[-1]
    split = Call(
        function=kernels.paged_split,
        arguments=(
            *(tensors[name] for name in names),
            *between,
            _scale(case),
            *(case.dim("heads"), groups, pages, queries, window, per_split),
        ),
        grid=(case.dim("batch"), groups, splits),
        options={
            **_depths(case),
            "PAGE": case.dim("block_size"),
            "WINDOW": bool(window),
            "ROWS": padded,
            "BN": PAGED_BLOCK,
            "num_warps": 4,
            "num_stages": 2 if torch.version.hip else 3,
        },
        scratch=between,
    )
    merge = _merge(case, tensors["out"], between, groups=groups, splits=splits, padded=padded)
    return split, merge


def _latent_rows(case: Case) -> int:
    """Heads of one program: their results of 512 values each must fit in registers."""
    return min(_padded(case.dim("heads")), 16 if torch.version.hip else 32)


def _latent_limit(case: Case) -> str | None:
    wide, rest, rows = case.dim("dim_v"), case.dim("dim_qk") - case.dim("dim_v"), _latent_rows(case)
    if any(size < MIN_TILE or size & (size - 1) for size in (wide, rest)):
        return f"dim_v = {wide} and dim_qk - dim_v = {rest} must be powers of two from {MIN_TILE} on"
    if case.dim("heads") > rows and case.dim("heads") % rows:
        return f"{case.dim('heads')} heads are not whole blocks of {rows}"
    return None


@triton_kernel(
    op="mla_decode",
    dtypes=DTYPES,
    detail="blocks of heads, split along the keys, then put together; fp8 is multiplied in f16",
    when=_latent_limit,
)
def mla_decode(case: Case, tensors: Tensors) -> tuple[Call, ...]:
    rows, heads, wide = _latent_rows(case), case.dim("heads"), case.dim("dim_v")
    blocks = triton.cdiv(heads, rows)
    splits, per_split = _spans(case.dim("seq_k"), others=case.dim("batch") * blocks, block=LATENT_BLOCK)
    between = _between(case, tensors["out"], groups=blocks, splits=splits, padded=rows)
    given = (tensors[name] for name in ("q", "cache", "kv_indptr", "kv_indices"))
    split = Call(
        function=kernels.latent_split,
        arguments=(*given, *between, _scale(case), heads, blocks, per_split),
        grid=(case.dim("batch"), blocks, splits),
        options={
            "DEPTH": case.dim("dim_qk"),
            "DV": wide,
            "REST": case.dim("dim_qk") - wide,
            "ROWS": rows,
            "BN": LATENT_BLOCK,
            "WIDE": case.dtype == "fp8",
            "num_warps": 8 if rows > MIN_TILE else 4,
            "num_stages": 1 if torch.version.hip else 2,
        },
        scratch=between,
    )
    merge = _merge(case, tensors["out"], between, groups=blocks, splits=splits, padded=rows)
    return split, merge
