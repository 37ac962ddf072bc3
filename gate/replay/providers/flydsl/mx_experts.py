"""FlyDSL's mixture of experts over 4-bit weights with shared exponents, fp4 or fp8 activations: what it is given.

Both kernels read rows in the order of the sorted tokens and scales in tiles of 32 rows by 8; the first one leaves fp4
codes and scales in those orders for the second, so nothing lies between the launches but an output set to zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gate.replay import layouts
from gate.replay.op import Case, Tensors
from gate.replay.providers.flydsl.checkout import Given

COLUMNS = 256
TOKEN = 0x00FFFFFF
DETAIL = (
    "tokens and their scales sorted, weights and their scales shuffled beforehand; the first kernel leaves fp4 for the "
    "second"
)


def grid(case: Case, block: int) -> int:
    """Workgroups of the first product, as FlyDSL's own host code counts them for tiles of `block` (up to 64) rows."""
    places, columns = case.dim("M") * case.dim("TopK"), case.dim("Dim2") // COLUMNS
    return (places + min(places, case.dim("E")) * (block - 1) + block - 1) // block * columns


def sorted_scales(scales: Any, tokens: Any) -> Any:
    """Row `tokens[i]` of e8m0 scales (M, K / 32) as row i, in the order of the kernels; token M has zeros."""
    padded = scales.new_zeros((len(scales) + 1, scales.shape[1]))
    padded[: len(scales)] = scales
    return layouts.shuffled_scales(padded[tokens])


def stages(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    """What both launchers get. Raises ValueError where no tile of the scales' order fits."""
    import torch

    block, experts = int(constants["BM"]), case.dim("E")
    x, out, inter = tensors["x"], tensors["out"], case.dim("Dim2") // 2
    ids, weights, tiles, valid = layouts.sorted_routing(
        tensors["topk_ids"], tensors["topk_weights"], experts=experts, unit=block
    )
    tokens, rows = ids & TOKEN, len(tiles) * block
    codes = torch.zeros((rows, inter // 2), dtype=torch.uint8, device=x.device)
    scales = torch.zeros((rows, inter // 32), dtype=torch.uint8, device=x.device)
    routed = {"arg_eids": tiles, "arg_cumsum": valid}
    ordered = {name: layouts.shuffled(tensors[name]) for name in ("w1", "w2")}
    exponents = {name: layouts.shuffled_scales(tensors[f"scale_{name}"].flatten(0, 1)) for name in ("w1", "w2")}
    first = {
        "arg_aq": x,
        "arg_ascale": sorted_scales(tensors["scale_x"], tokens.long()),
        "arg_bq": ordered["w1"],
        "arg_bscale": exponents["w1"],
        "arg_mind": tokens,
        "i32_ntok": case.dim("M"),
        "i32_grid": grid(case, block),
        "arg_aqout": codes,
        "arg_ascaleout": scales,
        # Read only by the kernels that quantise bf16 tokens themselves.
        "arg_hidden": x,
    }
    second = {
        "arg_aq": codes,
        "arg_ascale": scales,
        "arg_bq": ordered["w2"],
        "arg_bscale": exponents["w2"],
        "arg_stids": ids,
        "arg_sweights": weights,
        "i32_M": case.dim("M"),
        "i32_max_m_blocks": len(tiles),
        "arg_out": out,
        # Written only by the kernels that leave codes.
        "arg_out_scale": scales,
    }
    return [{**routed, **first}, {**routed, **second}]
