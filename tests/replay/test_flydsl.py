"""The FlyDSL provider binds each kernel as its launcher takes it, and asks for the stream at call time."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from gate.replay.op import Case
from gate.replay.provider import load_entrypoint
from gate.replay.providers.flydsl import canaries, checkout

CALLS: list[tuple[Any, ...]] = []
STREAM = types.SimpleNamespace(cuda_stream=1)


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A torch with one stream, a FlyDSL whose Stream keeps its pointer, kernel files that record their calls."""
    CALLS.clear()
    cuda = types.SimpleNamespace(current_stream=lambda: STREAM)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "flydsl.expr", types.SimpleNamespace(Stream=lambda pointer: ("stream", pointer)))
    canaries._launcher.cache_clear()

    def builder(name: str) -> Any:
        def build(dtype: str, **constants: Any) -> Any:
            return lambda *arguments: CALLS.append((name, dtype, constants, *arguments)), ()

        return build

    monkeypatch.setattr(canaries, "_builder", builder)
    monkeypatch.setattr(checkout, "root", lambda: None)
    yield
    canaries._launcher.cache_clear()


def launch(op: str, dtype: str, args: dict[str, Any]) -> tuple[Any, ...]:
    case = Case(shape_id="s", op_type=op, dtype=dtype, args=args, layout={})
    adapter = load_entrypoint(f"gate.replay.providers.flydsl:{op}", op)
    assert adapter.supports(case) is None
    tensors = {name: name for name in ("x", "weight", "out", "a", "b")}
    adapter.launch(adapter.prepare(case, tensors))
    return CALLS[-1]


@pytest.mark.parametrize(
    ("op", "dtype", "args", "constants", "arguments"),
    [
        ("rmsnorm", "bf16", {"M": 3, "N": 8}, {"N": 8, "eps": 1e-5}, ("x", "weight", "out", 3)),
        ("softmax", "fp16", {"M": 3, "N": 8}, {"N": 8}, ("x", "out", 3)),
        ("vec_add", "bf16", {"N": 64}, {"width": 8}, ("a", "b", "out", 8)),
        ("vec_add", "fp32", {"N": 63}, {"width": 1}, ("a", "b", "out", 63)),
        (
            "gemm",
            "bf16",
            {"M": 16, "N": 192, "K": 128},
            {"K": 128, "block_m": 32, "block_n": 64, "block_k": 64},
            ("a", "b", "out", 16, 192),
        ),
    ],
)
def test_each_launcher_gets_what_it_takes(
    op: str, dtype: str, args: dict[str, Any], constants: dict[str, Any], arguments: tuple[Any, ...]
) -> None:
    name, short, got, *rest = launch(op, dtype, args)
    assert (name, short, got) == (op, {"fp16": "f16", "fp32": "f32"}.get(dtype, dtype), constants)
    assert tuple(rest) == (*arguments, ("stream", 1))


def test_the_stream_is_fetched_at_each_call() -> None:
    case = Case(shape_id="s", op_type="softmax", dtype="bf16", args={"M": 1, "N": 8}, layout={})
    adapter = load_entrypoint("gate.replay.providers.flydsl:softmax", "softmax")
    state = adapter.prepare(case, {"x": "x", "out": "out"})
    streams = []
    for pointer in (1, 7):
        STREAM.cuda_stream = pointer
        adapter.launch(state)
        streams.append(CALLS[-1][-1])
    STREAM.cuda_stream = 1
    assert streams == [("stream", 1), ("stream", 7)]


def test_a_refusal_is_the_kernels_own_constraint() -> None:
    case = Case(shape_id="s", op_type="gemm", dtype="bf16", args={"M": 1, "N": 64, "K": 100}, layout={})
    adapter = load_entrypoint("gate.replay.providers.flydsl:gemm", "gemm")
    assert adapter.supports(case) == "K = 100 is not a multiple of 64"
