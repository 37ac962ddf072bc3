"""What FlyDSL's two kernels over 4-bit weights compute of the operands that they are given, read where they read.

Every address is taken from a checkout, `kernels/moe/mxfp_moe` since July 2026 and `mixed_moe_gemm_2stage` before: 16
rows of weights by 16 bytes, scales in tiles of 32 rows by 8 in the order of the sorted tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def store(values: Any, row: Any, codes: Any, scales: Any, *, at: Any, fp8: bool = False) -> None:
    """Rows of values as codes in the rows `at`, and their scales where the kernels find those of `row`."""
    groups = values.unflatten(-1, (-1, 32))
    exponents = (groups.abs().amax(-1) / (448 if fp8 else 6)).clamp_min(2.0**-100).log2().ceil()
    narrow = groups * (-exponents).exp2().unsqueeze(-1)
    if fp8:
        codes[at] = narrow.flatten(-2).to(torch.float8_e4m3fn).view(torch.uint8)
    else:
        table = torch.tensor(E2M1)
        nearest = (narrow.abs().unsqueeze(-1) - table).abs().argmin(-1) | (narrow < 0).int() << 3
        flat = nearest.flatten(-2).to(torch.uint8)
        codes[at] = flat[:, 0::2] | flat[:, 1::2] << 4
    scales.view(-1)[scale_places(row, values.shape[-1])] = (exponents + 127).to(torch.uint8)


def read(codes: Any, row: Any, k: int) -> Any:
    """fp32 codes of rows with K values, without their scales; a row beyond the buffer reads zeros."""
    padded = torch.cat((codes.view(torch.uint8), torch.zeros(1, codes.shape[1], dtype=torch.uint8)))[row]
    return padded.view(torch.float8_e4m3fn).float() if codes.shape[1] == k else unpack_fp4(padded)


def gated(x: Any, w: Any) -> Any:
    """silu(gate) * up, the rows of gate before those of up."""
    gate, up = (x @ w.T).chunk(2, dim=-1)
    return gate * gate.sigmoid() * up


def tiles(valid: Any, block: int) -> Iterator[tuple[int, Any]]:
    """Each tile with its sorted rows."""
    for tile in range(int(valid) // block):
        yield tile, tile * block + torch.arange(block)


def gate_up(given: Given, *, k: int, inter: int, block: int) -> None:
    """The first launch: silu(gate) * up of each sorted row, as fp4."""
    for tile, row in tiles(given["arg_cumsum"], block):
        x = read(given["arg_aq"], given["arg_mind"][row].long(), k) * factors(given["arg_ascale"], row, k)
        first = int(given["arg_eids"][tile]) * 2 * inter
        w = weights(given["arg_bq"], given["arg_bscale"], first + torch.arange(2 * inter), k)
        store(gated(x, w), row, given["arg_aqout"], given["arg_ascaleout"], at=row)


def down(given: Given, *, k: int, wide: int, block: int) -> None:
    """The second launch: each sorted row's share is added to its token's row of the output."""
    for tile, row in tiles(given["arg_cumsum"], block):
        x = read(given["arg_aq"], row, k) * factors(given["arg_ascale"], row, k)
        w = weights(given["arg_bq"], given["arg_bscale"], int(given["arg_eids"][tile]) * wide + torch.arange(wide), k)
        add(x @ w.T, given["arg_stids"][row].long(), given["arg_sweights"][row], given["i32_M"], given["arg_out"])


def add(share: Any, ids: Any, weight: Any, tokens: int, out: Any) -> None:
    """Weighted shares onto their tokens' rows; padding belongs to no token."""
    token = ids & 0xFFFFFF
    real = token < tokens
    out.index_add_(0, token[real], (share * weight.unsqueeze(-1))[real].to(out.dtype))


def older(first: Given, second: Given, *, k: int, inter: int, block: int, topk: int) -> None:
    """Both launches of before July 2026: between them codes in the tokens' own format, by token and slot."""
    fp8 = first["arg_x"].shape[1] == k
    for tile, row in tiles(first["arg_max_token_ids"], block):
        ids = first["arg_sorted_token_ids"][row].long()
        x = read(first["arg_x"], ids & 0xFFFFFF, k) * factors(first["arg_scale_x"], row, k)
        begin = int(first["arg_expert_ids"][tile]) * first["i32_inter_in"]
        w = weights(first["arg_w"], first["arg_scale_w"], begin + torch.arange(first["i32_inter_in"]), k)
        real = (ids & 0xFFFFFF) < first["i32_tokens_in"]
        place = ((ids & 0xFFFFFF) * topk + (ids >> 24))[real]
        store(gated(x, w)[real], row[real], first["arg_out"], first["arg_out_scale_sorted"], at=place, fp8=fp8)
    for tile, row in tiles(second["arg_num_valid_ids"], block):
        ids = second["arg_sorted_token_ids"][row].long()
        place = ((ids & 0xFFFFFF) * topk + (ids >> 24)).clamp_max(len(second["arg_x"]))
        x = read(second["arg_x"], place, inter) * factors(second["arg_scale_x"], row, inter)
        wide = second["i32_n_in"]
        begin = int(second["arg_expert_ids"][tile]) * wide
        w = weights(second["arg_w"], second["arg_scale_w"], begin + torch.arange(wide), inter)
        add(x @ w.T, ids, second["arg_sorted_weights"][row], second["i32_tokens_in"], second["arg_out"])
