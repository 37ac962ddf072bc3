"""The orders of weights, scales and routed tokens, element by element."""

from __future__ import annotations

from typing import Any

import pytest

from gate.replay import layouts
from gate.replay.memory_torch import TorchMemory
from gate.replay.op import Case, load_op

torch: Any = pytest.importorskip("torch")
FORMS = [
    (layouts.shuffled, (8, 64)),
    (layouts.shuffled, (16, 40)),
    (layouts.shuffled_fp4, (16, 40)),
    (layouts.shuffled_scales, (32, 12)),
]


@pytest.mark.parametrize(("dtype", "lane"), [("uint8", 16), ("bfloat16", 8)])
def test_a_lane_of_a_shuffled_weight_is_16_bytes_of_one_row(dtype: str, lane: int) -> None:
    n, k = 48, 96
    weight = torch.arange(n * k).remainder(251).view(n, k).to(getattr(torch, dtype))
    flat = layouts.shuffled(weight).view(-1)
    for row, column in ((0, 0), (1, 0), (15, 31), (16, 5), (47, 95), (20, 64), (33, 40)):
        tile = (row // 16) * (k // 32) + column // 32
        place = (tile * (32 // lane) + column % 32 // lane) * 16 * lane + row % 16 * lane + column % lane
        assert flat[place] == weight[row, column]


def test_packed_pairs_lie_in_groups_of_four_times_16_bytes() -> None:
    n, k = 32, 128
    weight = torch.arange(n * k).remainder(251).view(n, k).to(torch.uint8)
    flat = layouts.shuffled_fp4(weight).view(-1)
    for row, column in ((0, 0), (5, 70), (17, 127), (31, 64)):
        tile = (row // 16) * (k // 64) + column // 64
        assert flat[tile * 1024 + column % 64 // 16 * 256 + row % 16 * 16 + column % 16] == weight[row, column]


def test_scales_are_padded_to_whole_tiles_of_32_rows() -> None:
    rows, columns = 40, 16
    scales = torch.arange(rows * columns).remainder(251).view(rows, columns).to(torch.uint8)
    out = layouts.shuffled_scales(scales)
    assert out.shape == (64, 16)
    for row, column in ((0, 0), (39, 15), (17, 5), (31, 8)):
        tile = (row // 32) * (columns // 8) + column // 8
        inner = ((column % 4 * 16 + row % 16) * 2 + column % 8 // 4) * 2 + row % 32 // 16
        assert out.view(-1)[tile * 256 + inner] == scales[row, column]
    assert int(out.long().sum()) == int(scales.long().sum())


@pytest.mark.parametrize(("function", "shape"), FORMS)
def test_what_no_tile_fits_is_refused(function: Any, shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="multiple"):
        function(torch.zeros(shape, dtype=torch.uint8))


@pytest.mark.parametrize(("tokens", "experts", "topk", "unit"), [(5, 4, 2, 16), (64, 8, 3, 32), (1, 16, 1, 16)])
def test_routed_tokens_are_what_the_sorting_op_asks_for(tokens: int, experts: int, topk: int, unit: int) -> None:
    args = {"num_tokens": tokens, "num_experts": experts, "topk": topk, "unit_size": unit, "model_dim": 16}
    case, op = Case(shape_id="s", op_type="moe_sorting", dtype="bf16", args=args, layout={}), load_op("moe_sorting")
    inputs = op.inputs(case, TorchMemory("cpu"), 1, 7)
    ids, weights, tiles, valid = layouts.sorted_routing(
        inputs["topk_ids"][0], inputs["topk_weights"][0], experts=experts, unit=unit
    )
    given = {
        "sorted_ids": ids[None],
        "sorted_weights": weights[None],
        "sorted_experts": tiles[None],
        "num_valid": torch.tensor([[int(valid), tokens]]),
        "moe_buf": torch.zeros(1, tokens, 16),
    }
    expected, observed = op.reference(case, inputs), op.observed(case, inputs, given)
    for name, value in expected.items():
        assert torch.equal(observed[name], value), name
