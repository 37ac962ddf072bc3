"""FlyDSL's mixture of experts over 4-bit weights gets its operands where its kernels read them."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from gate.replay.memory_torch import TorchMemory  # noqa: E402
from gate.replay.op import Case, load_op  # noqa: E402
from gate.replay.providers.flydsl import mx_experts  # noqa: E402
from gate.replay.providers.flydsl.moe import moe_gemm  # noqa: E402
from tests.replay import mx_emulated  # noqa: E402

WIDE, INTER = 512, 256


def case(dtype: str, tokens: int, experts: int = 4, topk: int = 2) -> Case:
    args = {"M": tokens, "E": experts, "TopK": topk, "Dim1": WIDE, "Dim2": 2 * INTER}
    return Case(shape_id="s", op_type="moe_gemm", dtype=dtype, args=args, layout={})


@pytest.mark.parametrize("constant", ["BM", "tile_m"], ids=["newest", "up to July 2026"])
@pytest.mark.parametrize(
    ("dtype", "tokens", "block"), [("fp4", 1, 32), ("fp4", 37, 32), ("mixed_a8w4", 70, 32), ("mixed_a8w4", 130, 64)]
)
def test_the_kernels_find_every_operand(dtype: str, tokens: int, block: int, constant: str) -> None:
    one, op = case(dtype, tokens), load_op("moe_gemm")
    inputs = op.inputs(one, TorchMemory("cpu"), 1, 3)
    tensors = {name: value[0] for name, value in inputs.items()}
    tensors["out"] = torch.full((tokens, WIDE), float("nan"), dtype=torch.bfloat16)
    given = mx_experts.stages(one, tensors, {constant: block})
    assert moe_gemm.between is not None
    before, clear = moe_gemm.between(one, tensors, given)
    assert before is None and clear is not None
    clear()
    if constant == "BM":
        mx_emulated.gate_up(given[0], k=WIDE, inter=INTER, block=block)
        mx_emulated.down(given[1], k=INTER, wide=WIDE, block=block)
    else:
        mx_emulated.older(*given, k=WIDE, inter=INTER, block=block, topk=2)
    wanted = op.reference(one, inputs)["out"][0]
    error = (tensors["out"].float() - wanted).norm() / wanted.norm()
    # Codes of fp4 between the products err by 16%, of fp8 by 4%; an operand read elsewhere by about 140%.
    assert 0.01 < error < 0.2


@pytest.mark.parametrize(("tokens", "tiles"), [(1, 2), (37, 7), (130, 12)])
def test_the_grid_has_room_for_any_routing(tokens: int, tiles: int) -> None:
    assert mx_experts.grid(case("fp4", tokens), 32) == tiles * 2
    places = 2 * tokens
    worst = min(places, 4) - 1 + -(-(places - min(places, 4) + 1) // 32)
    assert tiles >= worst
