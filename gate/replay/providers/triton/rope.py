"""Triton's rotary embedding with its write into the paged cache."""

from __future__ import annotations

import triton

from gate.replay.op import Case, Tensors
from gate.replay.ops.fused_rope_cache import PACKED
from gate.replay.providers.triton.calls import Call, row_warps, triton_kernel
from gate.replay.providers.triton.common import HALVES
from gate.replay.providers.triton.kernels import rope as kernels

TENSORS = (
    "q", "k", "v", "positions", "cos", "sin", "slots", "q_out", "k_out", "key_cache", "value_cache", "k_scale",
    "v_scale",
)  # fmt: skip
PROGRAM_PAIRS = 1024


@triton_kernel(op="fused_rope_cache", dtypes=HALVES, detail="a token's heads in blocks, keys and values together")
def fused_rope_cache(case: Case, tensors: Tensors) -> Call:
    tokens, heads, kv_heads, width = (case.dim(name) for name in ("seq_len", "num_heads", "num_kv_heads", "head_dim"))
    half = triton.next_power_of_2(width // 2)
    block = max(1, min(triton.next_power_of_2(max(heads, kv_heads)), PROGRAM_PAIRS // half))
    flash = bool(case.args.get("flash_layout", True))
    return Call(
        function=kernels.rope_cache,
        arguments=(*map(tensors.get, TENSORS), heads, kv_heads),
        grid=(tokens, triton.cdiv(heads, block) + triton.cdiv(kv_heads, block)),
        options={
            "D": width,
            "HALF": half,
            "BH": block,
            "SLOTS": case.dim("block_size"),
            "NEOX": case.args.get("rotate_style", "neox") == "neox",
            "KEY_PACKED": 0 if flash else PACKED,
            "VALUE_PACKED": 0 if flash else 1,
            "num_warps": row_warps(2 * block * half),
        },
    )
