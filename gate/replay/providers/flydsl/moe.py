"""FlyDSL's mixtures of experts: both grouped products with the quantisation between them, and the sorting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gate.replay import layouts
from gate.replay.op import Case, Tensors
from gate.replay.providers.flydsl import mx_experts
from gate.replay.providers.flydsl.checkout import Given, checkout_kernel

GROUP = 128
PACKED = ("fp4", "mixed_a8w4")
DETAIL = "tokens sorted and weights shuffled beforehand; torch quantises between the products, in the timed part"
LARGEST = {"int8": 127.0}


def _quantise(x: Any, codes: Any, scales: Any, *, group: int) -> None:
    """Rows of x as codes with one scale for each `group` values, as the kernels' own tests do it: by torch."""
    import torch

    wide = x.view(-1, x.shape[-1] // group, group).float()
    largest = float(torch.finfo(codes.dtype).max) if codes.is_floating_point() else LARGEST["int8"]
    factor = wide.abs().amax(dim=-1, keepdim=True).clamp_min(1e-10) / largest
    narrow = wide / factor
    codes.copy_((narrow if codes.is_floating_point() else narrow.round()).view(codes.shape))
    scales.copy_(factor.view(scales.shape))


def _stages(case: Case, tensors: Tensors, constants: Mapping[str, Any], *, group: int | None) -> Given:
    import torch

    x, out, topk = tensors["x"], tensors["out"], case.dim("TopK")
    model, inter, tokens = case.dim("Dim1"), case.dim("Dim2") // 2, case.dim("M")
    unit, device = int(constants["tile_m"]), x.device
    ids, weights, experts, valid = layouts.sorted_routing(
        tensors["topk_ids"], tensors["topk_weights"], experts=case.dim("E"), unit=unit
    )
    between = torch.empty((tokens, topk, inter), dtype=out.dtype, device=device)
    codes = torch.empty((tokens * topk, inter), dtype=x.dtype, device=device)
    scales = torch.empty((tokens * topk, inter // group if group else 1), dtype=torch.float32, device=device)
    routed = {
        "arg_sorted_token_ids": ids,
        "arg_expert_ids": experts,
        "arg_sorted_weights": weights,
        "arg_max_token_ids": valid,
        "arg_num_valid_ids": valid,
        "i32_tokens_in": tokens,
        "i32_size_expert_ids_in": len(experts),
    }
    turned = tensors["scale_x"].t().contiguous() if group else tensors["scale_x"]
    first = {"arg_out": between, "arg_x": x, "arg_w": layouts.shuffled(tensors["w1"]), "arg_scale_x": turned}
    second = {"arg_out": out, "arg_x": codes, "arg_w": layouts.shuffled(tensors["w2"])}
    return [
        {**routed, **first, "arg_scale_w": tensors["scale_w1"], "i32_inter_in": inter, "i32_k_in": model},
        {**routed, **second, "arg_scale_x": scales, "arg_scale_w": tensors["scale_w2"], "i32_n_in": model}
        | {"i32_k_in": inter},
    ]


def _between(group: int | None) -> Callable[[Case, Tensors, Given], list[Callable[[], None] | None]]:
    """Codes for the second product, and an output of zeros, to which it adds."""

    def steps(case: Case, tensors: Tensors, given: Given) -> list[Callable[[], None] | None]:
        if case.dtype in PACKED:
            return [None, tensors["out"].zero_]
        made, taken, out = given[0]["arg_out"], given[1], tensors["out"]

        def middle() -> None:
            width = group or made.shape[-1]
            scales = taken["arg_scale_x"]
            if group is None:
                _quantise(made, taken["arg_x"], scales, group=width)
            else:
                # The kernel reads scales by group first.
                rows = scales.new_empty(scales.shape)
                _quantise(made, taken["arg_x"], rows, group=width)
                scales.view(rows.shape[1], rows.shape[0]).copy_(rows.t())
            out.zero_()

        return [None, middle]

    return steps


@checkout_kernel(
    op="moe_gemm",
    dtypes=("fp8", "int8", *PACKED),
    between=_between(None),
    includes_allocation=True,
    branch=lambda case: mx_experts.DETAIL if case.dtype in PACKED else DETAIL,
)
def moe_gemm(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    if case.dtype in PACKED:
        return mx_experts.stages(case, tensors, constants)
    return _stages(case, tensors, constants, group=None)


@checkout_kernel(
    op="moe_blockscale",
    dtypes=("fp8",),
    between=_between(GROUP),
    includes_allocation=True,
    detail=DETAIL,
)
def moe_blockscale(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    return _stages(case, tensors, constants, group=GROUP)


def _sorting_grids(case: Case, units: int = 256, resident: int = 2, threads: int = 256) -> dict[str, int]:
    """The sizes that FlyDSL's own host code computes for the two larger ways, for `units` compute units."""
    tokens, experts, topk, unit = (case.dim(name) for name in ("num_tokens", "num_experts", "topk", "unit_size"))
    words = tokens * case.dim("model_dim") // 2
    stride = -(-tokens // unit) * unit
    mesh = -(-experts * stride // 4)
    total, spread = mesh + experts + 1, min(-(-words // threads), units * resident)
    return {
        "i32_tokens": tokens,
        "i32_mesh_stride": stride,
        "i32_mesh_size": mesh,
        "i32_moe_buf_elems": words,
        "i32_ws_total": total,
        "i32_p0_niters": -(-tokens * topk // (units * resident * threads)),
        "n_grid_blocks": 1 + spread,
        "n_grid_k1": -(-total // 1024),
        "n_grid_k2": units * resident,
        "n_grid_p23": experts + spread,
    }


@checkout_kernel(op="moe_sorting", dtypes=("bf16", "f16", "fp16", "f32", "fp32"))
def moe_sorting(case: Case, tensors: Tensors, constants: Mapping[str, Any]) -> Given:
    import torch

    ids, sizes = tensors["topk_ids"], _sorting_grids(case)
    given = {
        "topk_ids": ids,
        "topk_ids_tensor": ids,
        "workspace": torch.zeros(sizes["i32_ws_total"], dtype=torch.int32, device=ids.device),
        "topk_weights_tensor": tensors["topk_weights"],
        "sorted_token_ids": tensors["sorted_ids"],
        "sorted_weights_out": tensors["sorted_weights"],
        "sorted_expert_ids": tensors["sorted_experts"],
        "num_valid_ids_out": tensors["num_valid"],
        "moe_buf": tensors["moe_buf"].view(torch.int32),
        "expert_mask_tensor": torch.ones(1, dtype=torch.int32, device=ids.device),
    }
    return [{**given, **sizes}]
