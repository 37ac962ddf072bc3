"""The gradients of RMSNorm: against autograd, PyTorch's operators, and the Triton kernels in the interpreter."""

from __future__ import annotations

import pytest

from gate import store
from gate.commands.replay_inputs import case_of
from gate.replay.memory_torch import TorchMemory
from gate.replay.op import load_op
from gate.replay.provider import load_entrypoint
from gate.resources import frozen_ledgers_dir
from tests.needs import needs_triton
from tests.replay.interpreted import findings
from tests.replay.on_cpu import case_for, judged

OP = "rmsnorm_bwd"
CASES = tuple(case_for(OP, dtype, M=m, N=n) for dtype, m, n in (("bf16", 5, 72), ("f16", 600, 33), ("fp32", 1, 1001)))


def test_every_frozen_shape_can_be_built() -> None:
    shapes = store.read_ledger(frozen_ledgers_dir() / OP / store.LEDGER_FILE).shapes
    assert shapes and {load_op(OP).refusal(case) for case in map(case_of, shapes)} == {None}


def test_every_tensor_is_counted_once() -> None:
    assert load_op(OP).bytes_moved(case_for(OP, "bf16", M=2, N=8)) == (3 * 16 + 8) * 2 + (2 + 8) * 4


def test_the_reference_is_what_autograd_says() -> None:
    torch = pytest.importorskip("torch")
    case = case_for(OP, "fp32", M=5, N=72, eps=1e-3)
    tensors = {name: value[0] for name, value in load_op(OP).inputs(case, TorchMemory("cpu"), 1, 3).items()}
    x, weight = tensors["x"].clone().requires_grad_(), tensors["weight"].clone().requires_grad_()
    torch.nn.functional.rms_norm(x, (72,), weight, 1e-3).backward(tensors["dy"])
    found = load_op(OP).reference(case, {name: value[None] for name, value in tensors.items()})
    assert torch.allclose(found["dx"][0], x.grad, atol=1e-5)
    assert torch.allclose(found["dweight"][0], weight.grad, atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pytorchs_gradients(case) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("torch")
    assert judged(f"gate.replay.providers.pytorch:{OP}", case) == []


@needs_triton
def test_tritons_gradients() -> None:
    assert findings("gate.replay.providers.triton", CASES) == [[] for _ in CASES]


def test_the_memory_between_tritons_two_launches_is_told() -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    case = case_for(OP, "bf16", M=600, N=64)
    adapter = load_entrypoint(f"gate.replay.providers.triton:{OP}", OP)
    op, memory = load_op(OP), TorchMemory("cpu")
    given = {name: memory.stack(1, spec.shape, spec.dtype) for name, spec in op.outputs(case).items()}
    tensors = {name: value[0] for name, value in {**op.inputs(case, memory, 1, 3), **given}.items()}
    (partial,) = adapter.workspaces(adapter.prepare(case, tensors))
    assert partial.numel() == 512 * 64
