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
from gate.replay.providers.aiter.latent import mla_decode
from tests.replay.aiter_cases import NAMES, ROWS, SHAPES, kernels

# Sizes and types of AITER's work list.
WORK = (((2,), torch.uint64), *((size, torch.int32) for size in (9, (10, 8), 5, (4, 2), 12)))


class Seen:
    """Stands for AITER: functions that record what they are given, layouts that change nothing, any enumeration."""

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    def call(self, *places: str, **arguments: Any) -> functools.partial[Any]:
        self.given.append(arguments)
        first = next((value for value in arguments.values() if isinstance(value, torch.Tensor)), None)
        pair = (torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.int64))
        answers = {"topk": pair, "get_cu_num": 256, "get_mla_metadata_info_v1": WORK}
        answer = answers.get(places[0].partition(":")[2], first)
        return functools.partial(lambda: answer)

    def find(self, *places: str) -> Any:
        del places
        return type("Any", (type,), {"__getattr__": lambda cls, name: name})("Kind", (), {})


def bound(case: Case, adapter: KernelAdapter, monkeypatch: pytest.MonkeyPatch) -> tuple[Seen, dict[str, Any], Any]:
    """What a binding hands over for a case, the outputs that it was given, and what its launch returned."""
    seen, op = Seen(), load_op(case.op_type)
    module = importlib.import_module(adapter.bind.__module__)
    common = importlib.import_module("gate.replay.providers.aiter.common")
    for place in (module, common, importlib.import_module("gate.replay.call")):
        for helper in ("call", "find"):
            if hasattr(place, helper):
                monkeypatch.setattr(place, helper, getattr(seen, helper))
    memory: Any = TorchMemory("cpu", "gfx950")
    tensors = {name: value[0] for name, value in op.inputs(case, memory, 1, 3).items()}
    outputs = {name: memory.stack(1, spec.shape, spec.dtype)[0] for name, spec in op.outputs(case).items()}
    return seen, outputs, adapter.launch(adapter.prepare(case, {**tensors, **outputs}))


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
    seen, outputs, result = bound(case, adapter, monkeypatch)
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


@pytest.mark.parametrize(
    ("dtype", "heads", "batch", "splits", "inside"),
    [
        ("fp8", 16, 2, 64, True),
        ("fp8", 64, 2, 64, False),
        ("fp8", 128, 2, 64, False),
        ("fp8", 128, 128, 2, False),
        ("bf16", 32, 2, 64, False),
        ("fp8", 8, 2, None, False),
        ("bf16", 16, 2, None, False),
        ("bf16", 128, 2, None, False),
    ],
)
def test_latent_decode_has_the_work_list_that_sglang_makes(
    dtype: str, heads: int, batch: int, splits: int | None, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = {**SHAPES["mla_decode"], "heads": heads, "batch": batch}
    case = Case(shape_id="s", op_type="mla_decode", dtype=dtype, args=args, layout={})
    seen, _, _ = bound(case, mla_decode, monkeypatch)
    last = seen.given[-1]
    assert (last["num_kv_splits"], last["intra_batch_mode"]) == (splits, inside)
    assert ("without a work list" in mla_decode.describe(case)) is (splits is None)
    if splits is None:
        assert len(seen.given) == 1 and last["work_meta_data"] is None
        return
    _, sizes, work, _ = seen.given
    assert (sizes["fast_mode"], sizes["intra_batch_mode"], sizes["num_kv_splits"]) == (not inside, inside, splits)
    assert work["kv_granularity"] == (32 if heads == 64 else 16)
    same = {"work_metadata_ptrs": "work_meta_data"} | {
        name: name for name in ("work_indptr", "work_info_set", "reduce_indptr", "reduce_final_map")
    }
    assert all(work[there] is last[here] for there, here in same.items())
    assert last["reduce_partial_map"].shape == (12,) and last["work_meta_data"].dtype == torch.uint64
