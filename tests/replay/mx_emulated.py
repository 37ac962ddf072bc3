"""What FlyDSL's two kernels over 4-bit weights compute of the operands that they are given, read where they read.

Every address is taken from `kernels/moe/mxfp_moe` of a checkout: 16 rows of weights by 16 bytes, scales in tiles of 32
rows by 8, rows of tokens in sorted order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gate.replay.quantised import E2M1, unpack_fp4

Given = Mapping[str, Any]


def weights(codes: Any, scales: Any, row: Any, k: int) -> Any:
    """fp32 rows `row` of shuffled fp4 weights of K values."""
    byte = torch.arange(k // 2)
    place = row[:, None] // 16 * 16 * (k // 2) + byte // 16 * 256 + row[:, None] % 16 * 16 + byte % 16
    return unpack_fp4(codes.reshape(-1)[place]) * factors(scales, row, k)


def scale_places(row: Any, k: int) -> Any:
    """Where the kernels find the scales (rows, K / 32) of `row`."""
    group = torch.arange(k // 32)
    word = (row[:, None] // 32 * (k // 256) + group // 8) * 64 + group % 4 * 16 + row[:, None] % 16
    return word * 4 + group % 8 // 4 * 2 + row[:, None] % 32 // 16


def factors(scales: Any, row: Any, k: int) -> Any:
    """The factor of each of K values of `row`."""
    exponents = scales.reshape(-1)[scale_places(row, k)].float() - 127
    return exponents.exp2().repeat_interleave(32, -1)


def store_fp4(values: Any, row: Any, codes: Any, scales: Any) -> None:
    """Rows of values as codes, row-major, and as scales in the kernels' order."""
    groups = values.unflatten(-1, (-1, 32))
    exponents = (groups.abs().amax(-1) / 6).clamp_min(2.0**-100).log2().ceil()
    narrow = groups * (-exponents).exp2().unsqueeze(-1)
    table = torch.tensor(E2M1)
    nearest = (narrow.abs().unsqueeze(-1) - table).abs().argmin(-1) | (narrow < 0).int() << 3
    flat = nearest.flatten(-2).to(torch.uint8)
    codes[row] = flat[:, 0::2] | flat[:, 1::2] << 4
    scales.view(-1)[scale_places(row, values.shape[-1])] = (exponents + 127).to(torch.uint8)


def gate_up(given: Given, *, k: int, inter: int, block: int) -> None:
    """The first launch: silu(gate) * up of each sorted row, as fp4."""
    for tile in range(int(given["arg_cumsum"]) // block):
        row = tile * block + torch.arange(block)
        token = given["arg_mind"][row].long()
        x = given["arg_aq"]
        # Rows beyond the tokens are beyond the buffer, which reads zeros.
        read = torch.cat((x.view(torch.uint8), torch.zeros(1, x.shape[1], dtype=torch.uint8)))[token]
        wide = unpack_fp4(read) if x.dtype == torch.uint8 else read.view(x.dtype).float()
        first = int(given["arg_eids"][tile]) * 2 * inter
        w = weights(given["arg_bq"], given["arg_bscale"], first + torch.arange(2 * inter), k)
        gate, up = (wide * factors(given["arg_ascale"], row, k) @ w.T).chunk(2, dim=-1)
        store_fp4(gate * gate.sigmoid() * up, row, given["arg_aqout"], given["arg_ascaleout"])


def down(given: Given, *, k: int, wide: int, block: int) -> None:
    """The second launch: each sorted row's share is added to its token's row of the output."""
    for tile in range(int(given["arg_cumsum"]) // block):
        row = tile * block + torch.arange(block)
        token = given["arg_stids"][row].long() & 0xFFFFFF
        x = unpack_fp4(given["arg_aq"][row]) * factors(given["arg_ascale"], row, k)
        w = weights(given["arg_bq"], given["arg_bscale"], int(given["arg_eids"][tile]) * wide + torch.arange(wide), k)
        share = (x @ w.T) * given["arg_sweights"][row].unsqueeze(-1)
        real = token < given["i32_M"]
        given["arg_out"].index_add_(0, token[real], share[real].to(given["arg_out"].dtype))
