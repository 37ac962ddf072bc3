"""The ops' own facts on every frozen shape; values against an independent computation where torch is installed."""

from __future__ import annotations

from typing import Any

import pytest

from gate import store
from gate.commands.replay_inputs import case_of
from gate.replay.memory_torch import TorchMemory
from gate.replay.op import Case, MissingDimension, load_op
from gate.resources import frozen_ledgers_dir
from tests.replay.on_cpu import case_for, judged

OPS = ("rmsnorm", "softmax", "vec_add", "gemm")


@pytest.mark.parametrize("name", OPS)
def test_every_frozen_shape_can_be_built(name: str) -> None:
    op = load_op(name)
    shapes = store.read_ledger(frozen_ledgers_dir() / name / store.LEDGER_FILE).shapes
    assert shapes
    for case in map(case_of, shapes):
        assert op.refusal(case) is None
        assert op.bytes_moved(case) > 0 and op.flops(case) > 0
        assert set(op.refresh) and all(spec.dtype == case.dtype for spec in op.outputs(case).values())


@pytest.mark.parametrize(
    ("name", "args", "bytes_moved", "flops"),
    [
        ("rmsnorm", {"M": 2, "N": 8}, (2 * 16 + 8) * 2, 64),
        ("softmax", {"M": 2, "N": 8}, 2 * 16 * 2, 80),
        ("vec_add", {"N": 8}, 48, 8),
        ("gemm", {"M": 2, "N": 3, "K": 4}, (8 + 12 + 6) * 2, 48),
    ],
)
def test_the_lower_bounds(name: str, args: dict[str, Any], bytes_moved: float, flops: float) -> None:
    case = Case(shape_id="s", op_type=name, dtype="bf16", args=args, layout={})
    op = load_op(name)
    assert (op.bytes_moved(case), op.flops(case)) == (bytes_moved, flops)


def test_what_is_missing_is_named_and_is_no_refusal() -> None:
    case = Case(shape_id="s", op_type="gemm", dtype="bf16", args={"M": 1, "N": 2}, layout={})
    with pytest.raises(MissingDimension, match="gemm needs K, which the shape's args do not have"):
        load_op("gemm").refusal(case)
    fp4 = Case(shape_id="s", op_type="gemm", dtype="fp4", args={"M": 1, "N": 2, "K": 3}, layout={})
    assert load_op("gemm").refusal(fp4) == "gemm has no fp32 reference tolerance for dtype fp4"


@pytest.mark.parametrize("name", OPS)
def test_the_reference_is_the_ops_formula(name: str) -> None:
    torch = pytest.importorskip("torch")
    op = load_op(name)
    args = {"M": 3, "N": 40, "K": 24, "eps": 1e-5}
    dtype = "bf16" if name == "gemm" else "fp32"
    case = Case(shape_id="s", op_type=name, dtype=dtype, args=args, layout={})
    tensors = op.inputs(case, TorchMemory("cpu"), 2, 5)
    wide = {key: value.double() for key, value in tensors.items()}
    expected = {
        "rmsnorm": lambda: (
            wide["x"] / (wide["x"].pow(2).sum(-1, keepdim=True) / 40 + 1e-5).sqrt() * wide["weight"][:, None]
        ),
        "softmax": lambda: wide["x"].exp() / wide["x"].exp().sum(-1, keepdim=True),
        "vec_add": lambda: wide["a"] + wide["b"],
        "gemm": lambda: torch.einsum("cmk,cnk->cmn", wide["a"], wide["b"]),
    }[name]()
    assert torch.allclose(op.reference(case, tensors)["out"].double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", OPS)
def test_pytorch_computes_what_the_op_says(name: str) -> None:
    pytest.importorskip("torch")
    case = case_for(name, "bf16", M=5, N=72, K=64, eps=1e-5)
    assert judged(f"gate.replay.providers.pytorch:{name}", case) == []


@pytest.mark.parametrize("provider", ["pytorch", "triton"])
def test_the_providers_have_the_four_ops(provider: str) -> None:
    pytest.importorskip("triton" if provider == "triton" else "torch")
    from gate.replay.provider import load_entrypoint

    for name in OPS:
        adapter = load_entrypoint(f"gate.replay.providers.{provider}:{name}", name)
        case = Case(shape_id="s", op_type=name, dtype="bf16", args={"M": 4, "N": 32, "K": 32}, layout={})
        assert adapter.supports(case) is None and adapter.describe(case) != "opaque"
