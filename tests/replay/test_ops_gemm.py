"""Matrix products and mixtures of experts: the ops' facts on every frozen shape, and PyTorch's kernels on the CPU."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gate import store
from gate.commands.replay_inputs import case_of
from gate.replay import quantised
from gate.replay.experts import activated
from gate.replay.memory_torch import TorchMemory
from gate.replay.op import load_op
from gate.replay.provider import load_entrypoint
from gate.resources import frozen_ledgers_dir
from tests.replay.on_cpu import case_for, judged

PRODUCTS = ("preshuffle_gemm", "fp8_gemm_rowscale", "blockscale_preshuffle_gemm", "batched_gemm")
EXPERTS = ("moe_gemm", "moe_blockscale")
PYTORCH = "gate.replay.providers.pytorch"
SIZES = {"M": 18, "N": 40, "K": 160}
ROUTED = {"M": 9, "E": 4, "TopK": 2, "Dim1": 160, "Dim2": 96}
CASES = (
    *(case_for("gemm", dtype, **SIZES) for dtype in ("bf16", "f16")),
    *(case_for("preshuffle_gemm", dtype, **SIZES) for dtype in ("bf16", "f16", "fp8", "int8", "fp4")),
    case_for("preshuffle_gemm", "int8", M=1, N=40, K=160),
    case_for("fp8_gemm_rowscale", "fp8", **SIZES),
    case_for("blockscale_preshuffle_gemm", "fp8", M=3, N=200, K=144),
    *(case_for("batched_gemm", dtype, B=3, **SIZES) for dtype in ("bf16", "f16", "int8", "fp4", "mixed_a16w4")),
    *(case_for("moe_gemm", dtype, **ROUTED) for dtype in ("fp8", "int8", "fp4", "mixed_a8w4")),
    case_for("moe_gemm", "fp8", **{**ROUTED, "TopK": 1}),
    case_for("moe_blockscale", "fp8", **{**ROUTED, "Dim2": 400}),
)


@pytest.mark.parametrize("name", [*PRODUCTS, *EXPERTS])
def test_every_frozen_shape_can_be_built(name: str) -> None:
    op = load_op(name)
    shapes = store.read_ledger(frozen_ledgers_dir() / name / store.LEDGER_FILE).shapes
    assert shapes
    for case in map(case_of, shapes):
        assert op.refusal(case) is None
        assert op.bytes_moved(case) > 0 and op.flops(case) > 0
        assert {spec.dtype for spec in op.outputs(case).values()} <= {"bf16", "f16"}


@pytest.mark.parametrize(
    ("op_type", "dtype", "args", "bytes_moved", "flops"),
    [
        ("preshuffle_gemm", "fp8", SIZES, 18 * 160 + 40 * 160 + 4 * (18 + 40) + 2 * 18 * 40, 2 * 18 * 40 * 160),
        ("preshuffle_gemm", "fp4", SIZES, (18 + 40) * (80 + 5) + 2 * 18 * 40, 2 * 18 * 40 * 160),
        ("batched_gemm", "bf16", {"B": 3, **SIZES}, 3 * 2 * (18 * 160 + 40 * 160 + 18 * 40), 3 * 2 * 18 * 40 * 160),
        (
            "blockscale_preshuffle_gemm",
            "fp8",
            {"M": 3, "N": 200, "K": 144},
            3 * (144 + 8) + 200 * 144 + 4 * 2 * 2 + 2 * 3 * 200,
            2 * 3 * 200 * 144,
        ),
        # One token visits exactly TopK experts: x and its scale, routing, two experts' weights and scales, out.
        (
            "moe_gemm",
            "fp8",
            {**ROUTED, "M": 1},
            164 + 16 + 2 * (96 * 164 + 160 * 52) + 320,
            2 * 2 * (96 * 160 + 160 * 48),
        ),
    ],
)
def test_the_lower_bounds(op_type: str, dtype: str, args: dict[str, Any], bytes_moved: float, flops: float) -> None:
    op, case = load_op(op_type), case_for(op_type, dtype, **args)
    assert (op.bytes_moved(case), op.flops(case)) == (bytes_moved, flops)


def test_the_experts_that_are_surely_visited() -> None:
    def count(m: int, experts: int, topk: int) -> float:
        return activated(case_for("moe_gemm", "fp8", M=m, E=experts, TopK=topk))

    assert count(1, 256, 8) == 8
    assert count(8192, 256, 8) == pytest.approx(256)
    assert 8 < count(32, 256, 8) < 256 * (1 - (1 - 8 / 256) ** 32)


def test_a_shape_that_cannot_be_stored_is_refused() -> None:
    odd = case_for("preshuffle_gemm", "fp4", M=2, N=3, K=31)
    assert "two fp4 values share a byte" in str(load_op("preshuffle_gemm").refusal(odd))
    assert "Dim2 holds gate and up" in str(
        load_op("moe_gemm").refusal(case_for("moe_gemm", "fp8", **{**ROUTED, "Dim2": 7}))
    )
    crowded = case_for("moe_gemm", "fp8", **{**ROUTED, "TopK": 5})
    assert "TopK = 5, E = 4" in str(load_op("moe_gemm").refusal(crowded))


@pytest.mark.parametrize("rms", [0.01, 0.37, 1.0, 5.5])
def test_random_operands_have_the_size_asked_for(rms: float) -> None:
    pytest.importorskip("torch")
    memory: Any = TorchMemory("cpu")
    for form in ("bf16", "fp8_rows", "int8_rows", "fp8_groups", "fp8_blocks", "fp8_mx", "fp4_mx"):
        made = quantised.fill_operand(memory, 2, 3, name="a", shape=(64, 500), form=form, rms=rms)
        reached = float(quantised.widened(made, "a", form).square().mean().sqrt())
        assert reached == pytest.approx(quantised.reached_rms(form, rms), rel=0.15)
        assert abs(math.log(reached / rms)) < 0.4


def test_narrow_forms_are_read_element_by_element() -> None:
    torch = pytest.importorskip("torch")
    packed = torch.tensor([[0x21, 0xF7, 0x90]], dtype=torch.uint8)
    scales = torch.tensor([[128]], dtype=torch.uint8)
    assert quantised.widen(packed, scales, "fp4_mx").tolist() == [[1.0, 2.0, 12.0, -12.0, 0.0, -1.0]]
    codes = torch.ones((130, 130))
    blocks = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    wide = quantised.widen(codes, blocks, "fp8_blocks")
    assert [wide[row, column].item() for row in (127, 128) for column in (127, 128)] == [1.0, 2.0, 3.0, 4.0]
    groups = quantised.widen(torch.ones((2, 130)), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "fp8_groups")
    assert groups[:, [0, 129]].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_the_reference_of_experts_is_the_sum_over_each_tokens_choices() -> None:
    torch = pytest.importorskip("torch")
    case, op = case_for("moe_gemm", "fp8", **ROUTED), load_op("moe_gemm")
    tensors = op.inputs(case, TorchMemory("cpu"), 2, 5)
    wide = {name: quantised.widened(tensors, name, "fp8_rows").double() for name in ("x", "w1", "w2")}
    expected = torch.zeros(2, 9, 160, dtype=torch.float64)
    for copy in range(2):
        for token in range(9):
            for expert, weight in zip(
                tensors["topk_ids"][copy, token], tensors["topk_weights"][copy, token], strict=True
            ):
                both = wide["w1"][copy, expert] @ wide["x"][copy, token]
                h = torch.nn.functional.silu(both[:48]) * both[48:]
                expected[copy, token] += weight * (wide["w2"][copy, expert] @ h)
    assert torch.allclose(op.reference(case, tensors)["out"].double(), expected, atol=1e-4)


def test_routing_is_distinct_and_weights_add_up() -> None:
    pytest.importorskip("torch")
    case = case_for("moe_gemm", "fp8", **ROUTED)
    tensors = load_op("moe_gemm").inputs(case, TorchMemory("cpu"), 2, 5)
    assert all(len(set(row)) == 2 for copy in tensors["topk_ids"].tolist() for row in copy)
    assert tensors["topk_weights"].sum(-1).flatten().tolist() == pytest.approx([1.0] * 18)
    assert tensors["topk_ids"][0].tolist() != tensors["topk_ids"][1].tolist()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.op_type}-{case.dtype}-{case.args['M']}")
def test_pytorch_computes_what_the_op_says(case: Any) -> None:
    pytest.importorskip("torch")
    assert judged(f"{PYTORCH}:{case.op_type}", case) == []


def test_pytorch_says_which_way_it_goes_and_what_it_converts() -> None:
    pytest.importorskip("torch")
    adapter = load_entrypoint(f"{PYTORCH}:preshuffle_gemm", "preshuffle_gemm")
    ways = {
        dtype: (adapter.describe(case), adapter.converts_layout(case))
        for dtype in ("bf16", "int8", "fp4")
        for case in [case_for("preshuffle_gemm", dtype, **SIZES)]
    }
    assert ways["bf16"][0].startswith("torch.mm") and not ways["bf16"][1]
    assert ways["int8"][0].startswith("torch._int_mm") and not ways["int8"][1]
    assert ways["fp4"][0].startswith("weights made bf16 beforehand") and ways["fp4"][1]
    few = case_for("preshuffle_gemm", "int8", M=1, N=40, K=160)
    assert adapter.converts_layout(few)


def test_hipblaslt_is_refused_off_amd() -> None:
    torch = pytest.importorskip("torch")
    for name in ("gemm", "preshuffle_gemm", "fp8_gemm_rowscale"):
        adapter = load_entrypoint(f"gate.replay.providers.hipblaslt:{name}", name)
        reason = adapter.supports(case_for(name, "fp8" if name == "fp8_gemm_rowscale" else "bf16", **SIZES))
        assert (reason is None) == (torch.version.hip is not None)
        assert reason is None or reason.startswith("hipBLASLt runs on AMD GPUs")


def test_hipblaslt_is_the_blas_of_its_own_launches_only(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    asked: list[str | None] = []

    def preferred(name: str | None = None) -> str:
        asked.append(name)
        return "before"

    monkeypatch.setattr(torch.backends.cuda, "preferred_blas_library", preferred)
    monkeypatch.setattr(torch.version, "hip", "7.0")
    case = case_for("gemm", "bf16", **SIZES)
    assert judged("gate.replay.providers.hipblaslt:gemm", case, copies=1) == []
    assert asked == [None, "hipblaslt", "before"]
