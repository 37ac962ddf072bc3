"""The row normalisations, the quantisation and the rotary embedding: formulas, bounds, layouts and PyTorch's values."""

from __future__ import annotations

from typing import Any

import pytest

from gate import store
from gate.commands.replay_inputs import case_of
from gate.replay import codes
from gate.replay.memory_torch import TorchMemory
from gate.replay.op import Case, load_op
from gate.resources import frozen_ledgers_dir
from tests.replay.on_cpu import case_for, judged

CODED = tuple(
    f"{norm}{added}_{kind}quant"
    for norm in ("rmsnorm", "layernorm")
    for added in ("", "_fused_add")
    for kind in ("dynamic", "smooth")
)
NORMS = ("rmsnorm", "fused_add_rmsnorm", "layernorm", "layernorm_fused_add", *CODED)
OPS = (*NORMS, "quant", "fused_rope_cache")
ROPE: dict[str, Any] = {
    "seq_len": 7, "num_heads": 6, "num_kv_heads": 2, "head_dim": 64, "rotate_style": "neox", "pos_dtype": "i32",
    "block_size": 16, "max_pos": 64, "flash_layout": True, "reuse_freqs_front_part": True, "apply_scale": False,
}  # fmt: skip
ROPES = (
    case_for("fused_rope_cache", "bf16", **ROPE),
    case_for("fused_rope_cache", "f16", **{**ROPE, "seq_len": 1, "num_heads": 5, "num_kv_heads": 1}),
    case_for("fused_rope_cache", "bf16", **{**ROPE, "rotate_style": "gptj"}),
    case_for("fused_rope_cache", "bf16", **{**ROPE, "flash_layout": False}),
    case_for("fused_rope_cache", "bf16", **{**ROPE, "pos_dtype": "i64", "head_dim": 96}),
    # More tokens than positions: positions repeat, slots do not.
    case_for("fused_rope_cache", "bf16", **{**ROPE, "seq_len": 100}),
)
SCALED_ROPES = tuple(
    case_for("fused_rope_cache", "bf16", **{**ROPE, "apply_scale": True, "flash_layout": flash})
    for flash in (True, False)
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
    ("name", "bytes_moved"),
    [
        ("rmsnorm", (16 + 16 + 8) * 2),
        ("fused_add_rmsnorm", (4 * 16 + 8) * 2),
        ("layernorm", (2 * 16 + 2 * 8) * 2),
        ("rmsnorm_dynamicquant", (16 + 8) * 2 + 16 + 2 * 4),
        ("layernorm_fused_add_smoothquant", (3 * 16 + 3 * 8) * 2 + 16 + 2 * 4),
        ("quant", 16 * 2 + 16 + 2 * 4),
    ],
)
def test_every_tensor_is_counted_once(name: str, bytes_moved: int) -> None:
    assert load_op(name).bytes_moved(case_for(name, "bf16", M=2, N=8)) == bytes_moved


def test_the_rope_counts_the_angles_it_can_need_at_least() -> None:
    op, few = load_op("fused_rope_cache"), case_for("fused_rope_cache", "bf16", **ROPE)
    values = 7 * (6 + 2 + 2) * 64 + 7 * (6 + 2) * 64 + 2 * 7 * 2 * 64
    assert op.bytes_moved(few) == 2 * (values + 2 * 7 * 32) + 2 * 7 * 4
    scaled = op.bytes_moved(SCALED_ROPES[0])
    assert op.bytes_moved(few) - scaled == 2 * 7 * 2 * 64


@pytest.mark.parametrize("name", NORMS)
def test_the_reference_is_the_ops_formula(name: str) -> None:
    torch = pytest.importorskip("torch")
    op, case = load_op(name), case_for(name, "fp32", M=3, N=40, eps=1e-3)
    tensors = op.inputs(case, TorchMemory("cpu"), 2, 5)
    wide = {
        key: value.double() if key in ("x", "residual") else value.double()[:, None] for key, value in tensors.items()
    }
    total = wide["x"] + wide.get("residual", 0.0)
    mean = total.mean(-1, keepdim=True) if "layernorm" in name else 0.0
    out = (total - mean) / ((total - mean).pow(2).sum(-1, keepdim=True) / 40 + 1e-3).sqrt() * wide["weight"]
    out = (out + wide.get("bias", 0.0)) * wide.get("smooth", 1.0)
    found = op.reference(case, tensors)
    if "quant" in name:
        largest = out.abs().max(-1, keepdim=True).values
        assert torch.allclose(found["scale"].double(), largest, rtol=1e-5)
        assert torch.allclose(found["out as int8"].double(), out / largest, atol=1e-5)
    else:
        assert torch.allclose(found["out"].double(), out, atol=1e-5, rtol=1e-5)
    if "fused_add" in name:
        assert torch.allclose(found["residual_out"].double(), total, atol=1e-6)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(("dtype", "m", "n"), [("bf16", 5, 72), ("f16", 3, 1001), ("fp32", 1, 33)])
def test_pytorchs_norms(name: str, dtype: str, m: int, n: int) -> None:
    pytest.importorskip("torch")
    assert judged(f"gate.replay.providers.pytorch:{name}", case_for(name, dtype, M=m, N=n, eps=1e-5)) == []


@pytest.mark.parametrize("out_dtype", ["int8", "fp8"])
@pytest.mark.parametrize("name", ["quant", "rmsnorm_dynamicquant", "layernorm_fused_add_smoothquant"])
def test_pytorchs_codes(name: str, out_dtype: str) -> None:
    pytest.importorskip("torch")
    case = case_for(name, "bf16", M=5, N=1000, out_dtype=out_dtype)
    assert judged(f"gate.replay.providers.pytorch:{name}", case) == []


@pytest.mark.parametrize("case", [*ROPES, *SCALED_ROPES], ids=str)
def test_pytorchs_rope(case: Case) -> None:
    pytest.importorskip("torch")
    assert judged("gate.replay.providers.pytorch:fused_rope_cache", case) == []


def wrong(name: str, case: Case, spoil: Any) -> list[str]:
    """The findings on PyTorch's output after `spoil` changed it."""
    from gate.replay import outputs
    from gate.replay.provider import load_entrypoint

    op, memory = load_op(name), TorchMemory("cpu")
    judge = outputs.Outputs(device=memory, op=op, case=case, inputs=op.inputs(case, memory, 1, 5))  # type: ignore[arg-type]
    judge.allocate(1)
    adapter = load_entrypoint(f"gate.replay.providers.pytorch:{name}", name)
    tensors = {key: value[0] for key, value in {**judge.inputs, **judge.given}.items()}
    result = dict(adapter.launch(adapter.prepare(case, tensors)) or {})
    spoil({**tensors, **result})
    judge.results[0] = result
    return [finding.text for finding in judge.judge(range(1))[0]]


def test_a_code_off_by_two_or_a_scale_off_by_two_percent_is_seen() -> None:
    pytest.importorskip("torch")
    case = case_for("quant", "bf16", M=4, N=100, out_dtype="int8")
    assert wrong("quant", case, lambda tensors: None) == []
    assert "of out as int8" in wrong("quant", case, lambda tensors: tensors["out"][1, 2].sub_(2))[0]
    found = wrong("quant", case, lambda tensors: tensors["scale"][2].mul_(1.02))
    assert any("1 of 4 elements of scale" in text for text in found)


def test_a_key_in_the_wrong_slot_is_seen() -> None:
    pytest.importorskip("torch")

    def move(tensors: dict[str, Any]) -> None:
        cache = tensors["key_cache"].view(-1, 2, 64)
        slot = int(tensors["slots"][3])
        cache[(slot + 1) % len(cache)] = cache[slot].clone()
        cache[slot] = -30464.0

    found = wrong("fused_rope_cache", ROPES[0], move)
    assert len(found) >= 1 and "keys as bf16" in found[0]


def test_what_the_ops_refuse() -> None:
    rope = load_op("fused_rope_cache")
    assert "reuse_freqs" in str(
        rope.refusal(case_for("fused_rope_cache", "bf16", **{**ROPE, "reuse_freqs_front_part": False}))
    )
    assert "neither neox" in str(rope.refusal(case_for("fused_rope_cache", "bf16", **{**ROPE, "rotate_style": "yarn"})))
    odd = case_for("fused_rope_cache", "bf16", **{**ROPE, "flash_layout": False, "head_dim": 72})
    assert "not a multiple of 16" in str(rope.refusal(odd))
    assert "neither int8 nor fp8" in str(load_op("quant").refusal(case_for("quant", "bf16", M=1, N=2, out_dtype="fp4")))


def test_the_largest_code_is_that_of_the_flavour() -> None:
    torch = pytest.importorskip("torch")
    kinds = {torch.int8: 127, torch.float8_e4m3fn: 448, torch.float8_e4m3fnuz: 240}
    assert all(codes.largest(torch.empty(1, dtype=kind)) == value for kind, value in kinds.items())
