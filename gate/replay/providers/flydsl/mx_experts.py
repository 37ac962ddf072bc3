"""FlyDSL's mixture of experts over 4-bit weights with shared exponents, fp4 or fp8 activations: what it is given.

Both kernels read scales in the order of the sorted tokens, in tiles of 32 rows by 8; the first one leaves codes and
scales for the second, so nothing lies between the launches but an output set to zeros. Since July 2026 the codes are
fp4 in the order of the sorted tokens, before they were in the format of the activations, by token and slot.
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
    "tokens and their scales sorted, weights and their scales shuffled beforehand; the first kernel leaves codes and "
    "scales for the second"
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


def _ordered(tensors: Tensors, name: str) -> tuple[Any, Any]:
    """Weights and their scales in the kernels' order."""
    return layouts.shuffled(tensors[name]), layouts.shuffled_scales(tensors[f"scale_{name}"].flatten(0, 1))


def stages(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    """What both launchers get. Raises ValueError where no tile of the scales' order fits."""
    import torch

    if "BM" not in constants:
        return _older_stages(case, tensors, int(constants["tile_m"]))
    block, x, out, inter = int(constants["BM"]), tensors["x"], tensors["out"], case.dim("Dim2") // 2
    ids, weights, tiles, valid = layouts.sorted_routing(
        tensors["topk_ids"], tensors["topk_weights"], experts=case.dim("E"), unit=block
    )
    tokens, rows = ids & TOKEN, len(tiles) * block
    codes = torch.zeros((rows, inter // 2), dtype=torch.uint8, device=x.device)
    scales = torch.zeros((rows, inter // 32), dtype=torch.uint8, device=x.device)
    routed = {"arg_eids": tiles, "arg_cumsum": valid}
    (w1, scale_w1), (w2, scale_w2) = (_ordered(tensors, name) for name in ("w1", "w2"))
    first = {
        "arg_aq": x,
        "arg_ascale": sorted_scales(tensors["scale_x"], tokens.long()),
        "arg_bq": w1,
        "arg_bscale": scale_w1,
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
        "arg_bq": w2,
        "arg_bscale": scale_w2,
        "arg_stids": ids,
        "arg_sweights": weights,
        "i32_M": case.dim("M"),
        "i32_max_m_blocks": len(tiles),
        "arg_out": out,
        # Written only by the kernels that leave codes.
        "arg_out_scale": scales,
    }
    return [{**routed, **first}, {**routed, **second}]


def _older_stages(case: Case, tensors: Tensors, unit: int) -> Given:
    """What both launchers of checkouts up to July 2026 get."""
    import torch

    x, inter, model = tensors["x"], case.dim("Dim2") // 2, case.dim("Dim1")
    ids, weights, tiles, valid = layouts.sorted_routing(
        tensors["topk_ids"], tensors["topk_weights"], experts=case.dim("E"), unit=unit
    )
    places, width = case.dim("M") * case.dim("TopK"), inter // 2 if case.dtype == "fp4" else inter
    codes = torch.zeros((places, width), dtype=torch.uint8, device=x.device)
    scales = torch.zeros((len(tiles) * unit, inter // 32), dtype=torch.uint8, device=x.device)
    (w1, scale_w1), (w2, scale_w2) = (_ordered(tensors, name) for name in ("w1", "w2"))
    routed = {
        "arg_sorted_token_ids": ids,
        "arg_expert_ids": tiles,
        "arg_sorted_weights": weights,
        "arg_max_token_ids": valid,
        "arg_num_valid_ids": valid,
        "arg_bias": torch.empty(0, dtype=torch.float32, device=x.device),
        "i32_tokens_in": case.dim("M"),
        "i32_size_expert_ids_in": len(tiles),
    }
    first = {"arg_out": codes, "arg_x": x, "arg_w": w1, "arg_scale_w": scale_w1, "arg_out_scale_sorted": scales}
    first |= {"arg_scale_x": sorted_scales(tensors["scale_x"], (ids & TOKEN).long())}
    second = {"arg_out": tensors["out"], "arg_x": codes, "arg_w": w2, "arg_scale_x": scales, "arg_scale_w": scale_w2}
    return [
        {**routed, **first, "i32_inter_in": 2 * inter, "i32_k_in": model},
        {**routed, **second, "i32_n_in": model, "i32_k_in": inter},
    ]
