"""Attention and routing ops: facts on every frozen shape, values by an independent formula, PyTorch and Triton."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from gate import store
from gate.commands.replay_inputs import case_of
from gate.replay import attention
from gate.replay.op import Case, load_op
from gate.resources import frozen_ledgers_dir
from tests.needs import needs_torch, needs_triton
from tests.replay.interpreted import findings
from tests.replay.on_cpu import case_for, judged

OPS = ("flash_attn", "mla_decode", "pa_decode", "topk_gating_softmax", "moe_reduce", "moe_sorting")
PYTORCH, TRITON = "gate.replay.providers.pytorch", "gate.replay.providers.triton"
FLASH = {"batch": 2, "heads": 4, "kv_heads": 2, "dim_qk": 32, "dim_v": 32}
PAGED = {"batch": 3, "heads": 4, "kv_heads": 2, "dim_qk": 32, "dim_v": 32, "block_size": 16, "causal": True}
LATENT = {"batch": 2, "heads": 16, "kv_heads": 1, "dim_qk": 576, "dim_v": 512, "seq_q": 1}
SORTING = {"num_tokens": 37, "num_experts": 8, "topk": 3, "unit_size": 4, "model_dim": 16}
CASES = (
    case_for("flash_attn", "bf16", **FLASH, seq_q=33, seq_k=33, causal=True),
    case_for("flash_attn", "f16", **FLASH, seq_q=70, seq_k=70, causal=False),
    case_for("flash_attn", "bf16", **FLASH, seq_q=130, seq_k=130, causal=True, window=17),
    case_for("flash_attn", "bf16", **{**FLASH, "dim_qk": 24, "dim_v": 8}, seq_q=1, seq_k=1, causal=True),
    case_for("mla_decode", "bf16", **LATENT, seq_k=65),
    case_for("mla_decode", "fp8", **LATENT, seq_k=1),
    case_for("pa_decode", "bf16", **PAGED, seq_q=1, seq_k=47),
    case_for("pa_decode", "fp8", **PAGED, seq_q=1, seq_k=257),
    case_for("pa_decode", "fp8", **PAGED, seq_q=3, seq_k=50),
    case_for("pa_decode", "bf16", **PAGED, seq_q=1, seq_k=100, window=20),
    case_for("topk_gating_softmax", "bf16", num_tokens=9, num_experts=24, topk=5),
    case_for("topk_gating_softmax", "f32", num_tokens=1, num_experts=8, topk=8),
    case_for("moe_reduce", "bf16", num_tokens=5, topk=3, model_dim=40),
    case_for("moe_reduce", "f32", num_tokens=1, topk=16, model_dim=1031),
    case_for("moe_sorting", "bf16", **SORTING),
    case_for("moe_sorting", "bf16", **{**SORTING, "num_tokens": 1, "topk": 1}),
)


@pytest.mark.parametrize("name", OPS)
def test_every_frozen_shape_can_be_built(name: str) -> None:
    op = load_op(name)
    shapes = store.read_ledger(frozen_ledgers_dir() / name / store.LEDGER_FILE).shapes
    assert shapes
    for case in map(case_of, shapes):
        assert op.refusal(case) is None
        assert op.bytes_moved(case) > 0 and op.flops(case) > 0


@pytest.mark.parametrize(
    ("queries", "keys", "more", "pairs"),
    [
        (4, 4, {"causal": True}, 10),
        (4, 4, {"causal": False}, 16),
        (4, 4, {"causal": True, "window": 2}, 7),
        (2, 10, {"causal": True}, 19),
        (1, 10, {"causal": True, "window": 3}, 3),
    ],
)
def test_the_pairs_that_count(queries: int, keys: int, more: dict[str, Any], pairs: int) -> None:
    case = case_for("flash_attn", "bf16", **FLASH, seq_q=queries, seq_k=keys, **more)
    assert attention.pairs(case) == pairs
    assert attention.flops(case) == 2 * 2 * 4 * pairs * 64


@needs_torch
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("rows", [1 << 29, 64])
def test_the_reference_attends_as_the_formula_says(
    window: int | None, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(attention, "SCORE_BYTES", rows)
    torch.manual_seed(3)
    q, k, v = torch.randn(2, 5, 4, 8), torch.randn(2, 7, 2, 8), torch.randn(2, 7, 2, 6)
    got = attention.attend(q, k, v, causal=True, window=window)
    for batch in range(2):
        for row in range(5):
            for head in range(4):
                last = row + 2
                seen = [key for key in range(7) if key <= last and (window is None or key > last - window)]
                scores = [float(q[batch, row, head] @ k[batch, key, head // 2]) / math.sqrt(8) for key in seen]
                weights = [math.exp(score - max(scores)) for score in scores]
                wanted = sum(w * v[batch, key, head // 2] for w, key in zip(weights, seen, strict=True)) / sum(weights)
                assert torch.allclose(got[batch, row, head], wanted, atol=1e-5)


@needs_torch
@pytest.mark.parametrize("case", [one for one in CASES if one.op_type in ("mla_decode", "pa_decode")], ids=str)
def test_the_reference_does_not_depend_on_how_many_sequences_it_takes_at_a_time(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from gate.replay.memory_torch import TorchMemory

    op = load_op(case.op_type)
    tensors = op.inputs(case, TorchMemory("cpu"), 2, 5)
    together = op.reference(case, tensors)["out"]
    monkeypatch.setattr(attention, "GATHERED_BYTES", 1)
    assert len(list(attention.gathered_parts(case, 1))) == case.dim("batch")
    torch.testing.assert_close(op.reference(case, tensors)["out"], together, atol=1e-6, rtol=1e-6)


@needs_torch
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reference_asks_for_no_dimension_that_a_shape_may_lack(case: Case) -> None:
    from gate.replay.memory_torch import TorchMemory

    op = load_op(case.op_type)
    bare = replace(case, args={name: case.args[name] for name in op.needs()})
    assert op.refusal(bare) is None
    assert op.reference(bare, op.inputs(bare, TorchMemory("cpu"), 1, 5))


@needs_torch
@pytest.mark.parametrize("case", CASES, ids=str)
def test_pytorch_computes_what_the_op_says(case: Case) -> None:
    assert [finding.text for finding in judged(f"{PYTORCH}:{case.op_type}", case)] == []


@needs_triton
def test_triton_computes_what_the_op_says() -> None:
    found = findings(TRITON, CASES)
    assert dict(zip(map(str, CASES), found, strict=True)) == {str(case): [] for case in CASES}


def _wrong(case: Case, spoil: Any) -> list[str]:
    """What is found when PyTorch's right outputs are spoilt."""
    from gate.replay.provider import KernelAdapter, load_entrypoint

    right = load_entrypoint(f"{PYTORCH}:{case.op_type}", case.op_type)

    class Spoilt(KernelAdapter):
        def launch(self, state: Any) -> Any:
            launch, tensors = state
            results = {**tensors, **(launch() or {})}
            spoil(results)
            return {name: results[name] for name in load_op(case.op_type).outputs(case)}

    adapter = Spoilt(
        bind=lambda case, tensors: (right.prepare(case, tensors), tensors),
        op_type=case.op_type,
        provider="pytorch",
        dtypes=(case.dtype,),
    )
    return [finding.code for finding in judged(adapter, case)]


@needs_torch
def test_a_wrong_choice_of_experts_is_found() -> None:
    case = case_for("topk_gating_softmax", "f32", num_tokens=6, num_experts=16, topk=4)

    def repeat(results: Any) -> None:
        results["indices"][:, 1] = results["indices"][:, 0]

    def outside(results: Any) -> None:
        results["indices"][0, 0] = 16

    def other(results: Any) -> None:
        results["weights"][:, 0] *= 1.01

    assert all("wrong_output" in _wrong(case, spoil) for spoil in (repeat, outside, other))


@needs_torch
def test_a_wrong_sorting_is_found() -> None:
    case = case_for("moe_sorting", "bf16", **SORTING)

    def swapped(results: Any) -> None:
        results["sorted_experts"][:2] = 7

    def short(results: Any) -> None:
        results["num_valid"][0] -= 4

    def dirty(results: Any) -> None:
        results["moe_buf"][0, 0] = 1.0

    def twice(results: Any) -> None:
        results["sorted_ids"][1] = results["sorted_ids"][0]

    assert all("wrong_output" in _wrong(case, spoil) for spoil in (swapped, short, dirty, twice))
