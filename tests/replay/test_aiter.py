"""Each binding to AITER fits its op: the tensors it names exist, and every output is handed over or returned."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton", exc_type=ImportError)

import torch

from gate.contracts.calls import PROVIDERS, calls_of
from gate.replay.memory_torch import TorchMemory
from gate.replay.op import Case, load_op
from gate.replay.provider import KernelAdapter
from tests.replay.aiter_cases import NAMES, ROWS, SHAPES, kernels


class Seen:
    """Stands for AITER: functions that record what they are given, layouts that change nothing, any enumeration."""

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    def call(self, *places: str, **arguments: Any) -> functools.partial[Any]:
        self.given.append(arguments)
        first = next((value for value in arguments.values() if isinstance(value, torch.Tensor)), None)
        pair = (torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.int64))
        return functools.partial(lambda: pair if places[0].endswith(":topk") else first)

    def find(self, *places: str) -> Any:
        del places
        return type("Any", (type,), {"__getattr__": lambda cls, name: name})("Kind", (), {})


@pytest.mark.parametrize(("name", "adapter", "dtype"), kernels(), ids=lambda item: getattr(item, "op_type", str(item)))
def test_each_binding_fits_its_op(
    name: str, adapter: KernelAdapter, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = load_op(adapter.op_type)
    case = Case(shape_id="s", op_type=op.name, dtype=dtype, args=SHAPES.get(op.name, ROWS), layout={})
    assert op.refusal(case) is None
    refusal = adapter.supports(case)
    if refusal is not None:
        assert len(refusal.split()) > 4
        return
    seen = Seen()
    module = importlib.import_module(adapter.bind.__module__)
    common = importlib.import_module("gate.replay.providers.aiter.common")
    for place in (module, common, importlib.import_module("gate.replay.call")):
        for helper in ("call", "find"):
            if hasattr(place, helper):
                monkeypatch.setattr(place, helper, getattr(seen, helper))
    memory: Any = TorchMemory("cpu", "gfx950")
    tensors = {name: value[0] for name, value in op.inputs(case, memory, 1, 3).items()}
    outputs = {name: memory.stack(1, spec.shape, spec.dtype)[0] for name, spec in op.outputs(case).items()}
    result = adapter.launch(adapter.prepare(case, {**tensors, **outputs}))
    handed = {value.data_ptr() for given in seen.given for value in given.values() if isinstance(value, torch.Tensor)}
    for output, tensor in outputs.items():
        inside = output in (result or {}) or tensor.data_ptr() in handed
        assert inside or (name, op.name) == ("aiter_triton", "topk_gating_softmax"), f"{output} is nowhere"
    # What a call returns it has allocated; one that returns nothing may have allocated intermediate values.
    assert adapter.includes_allocation or result is None


def test_every_kernel_calls_something_of_aiter() -> None:
    called = {
        (path.parent.name, call.op)
        for name in NAMES
        for path in sorted((PROVIDERS / name).glob("*.py"))
        for call in calls_of(path.read_text("utf-8"), provider=name, file=path.name)
    }
    indirect = {("aiter", "moe_gemm"), ("aiter", "moe_blockscale")}
    assert {(name, adapter.op_type) for name, adapter, _ in kernels()} <= called | indirect
