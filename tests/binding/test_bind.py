"""Calling kernels by inspected signature: what is filled in, and how a signature that changed is refused."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gate.binding import bind
from gate.binding.arguments import ADDRESS, Arguments

# Only their names are read, as FlyDSL's are.
Tensor = Pointer = Int32 = Int64 = Float32 = Stream = Any
Constexpr = list

HERE = ModuleType("here")
HERE.__dict__.update(MODE=7)


class Jit:
    """Stands for FlyDSL's launcher type: it holds the function and records how it was called."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append((args, kwargs))


def recipe(**fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"values": {}, "offers": {}, "tensors": {}, "scalars": {}, "made": {}}
    return {**empty, **fields}


def arguments(part: dict[str, Any], given: dict[str, Any] | None = None) -> Arguments:
    torch = SimpleNamespace(empty=lambda shape, dtype: ("tensor", dtype, shape), bfloat16="bf16", float32="f32")
    compiler = SimpleNamespace(
        from_c_void_p=lambda kind, address: ("pointer", address), from_torch_tensor=lambda t: ("static", t)
    )
    expr = SimpleNamespace(Uint8="u8", Int64=lambda value: ("i64", value), Stream=lambda value: ("stream", value))
    return Arguments(part, HERE, torch=torch, compiler=compiler, expr=expr, given=given)


def test_a_builder_gets_what_it_has_a_name_for() -> None:
    def build(N: int, dtype_str: str, M: int, eps: float = 1e-5) -> None: ...

    found = bind.bound(build, {"N": 4, "dtype_str": "bf16"}, {"M": 9, "unknown": 1})
    assert found == {"N": 4, "dtype_str": "bf16", "M": 9}


@pytest.mark.parametrize(("values", "words"), [({"N": 4, "typo": 1}, "typo"), ({}, "expected build()")])
def test_a_changed_signature_says_what_was_expected_and_found(values: dict[str, Any], words: str) -> None:
    def build(N: int, dtype_str: str = "f32") -> None: ...

    with pytest.raises(bind.Unsupported, match="API changed: expected build") as refusal:
        bind.bound(build, values, {})
    assert words in str(refusal.value) and "found build(N" in str(refusal.value)


def test_a_constraint_of_the_kernel_is_quoted(tmp_path: Path) -> None:
    # A file of its own, because pytest rewrites the assertions of test modules.
    source = tmp_path / "constrained.py"
    lines = [
        "def build(N):",
        "    if N > 9:",
        "        raise ValueError('N must be\\n at most 9')",
        "    assert N % 2 == 0",
    ]
    source.write_text("\n".join(lines) + "\n")
    names: dict[str, Any] = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    build = names["build"]
    with pytest.raises(bind.Unsupported, match=r"^N must be at most 9$"):
        bind.call_builder(build, recipe(values={"N": 10}), HERE)
    with pytest.raises(bind.Unsupported, match="assert N % 2 == 0"):
        bind.call_builder(build, recipe(values={"N": 3}), HERE)


def test_a_fault_inside_a_builder_is_not_a_constraint() -> None:
    def build(N: int) -> int:
        return N // 0

    with pytest.raises(ZeroDivisionError):
        bind.call_builder(build, recipe(values={"N": 4}), HERE)


def test_lists_arrive_as_tuples_and_constants_come_from_the_module() -> None:
    seen: list[Any] = []
    bind.call_builder(lambda MN, mode: seen.extend([MN, mode]), recipe(values={"MN": [1, 2], "mode": "$MODE"}), HERE)
    assert seen == [(1, 2), 7]
    with pytest.raises(bind.Unsupported, match="expected ABSENT in here"):
        bind.call_builder(lambda mode: mode, recipe(values={"mode": "$ABSENT"}), HERE)


def test_arguments_follow_the_annotations() -> None:
    def launch(
        a: Tensor, p: Pointer, n: Int32, q: Int64, s: Float32, k: Constexpr[int], stream: Stream, w: int = 5
    ): ...

    jit = Jit(launch)
    arguments(recipe(tensors={"a": ["bf16", [2, 3]]}, values={"k": 8})).launch(jit, Jit)
    expected = (
        ("tensor", "bf16", (2, 3)),
        ("pointer", ADDRESS),
        1,
        ("i64", ADDRESS),
        1.0,
        8,
        ("stream", None),
    )
    assert jit.calls == [(expected, {})]


def test_static_and_scalar_arguments() -> None:
    def launch(a: Tensor, n: Int32, where): ...

    jit = Jit(launch)
    part = recipe(tensors={"a": ["f32", [2], "static"]}, scalars={"n": 64, "where": "address"})
    arguments(part).launch(jit, Jit)
    assert jit.calls == [((("static", ("tensor", "f32", (2,))), 64, ("i64", ADDRESS)), {})]


def test_a_tensor_that_nobody_knows_is_an_api_change() -> None:
    def launch(a: Tensor, renamed: Tensor): ...

    with pytest.raises(bind.Unsupported, match=r"expected a launcher of \(a, b\), found \(a: 'Tensor', renamed"):
        arguments(recipe(tensors={"a": ["f32", [1]], "b": ["f32", [1]]})).launch(Jit(launch), Jit)


class Memory:
    """Stands for a tensor on a device."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


def test_what_a_pointer_leads_to_lives_as_long_as_the_call() -> None:
    """Weights laid out for a kernel belong to nobody else; freed, the next ring copy would be written over them."""

    def launch(p: Pointer, q: Int64, stream: Stream): ...

    jit, given = Jit(launch), {"p": Memory(64), "q": Memory(128)}
    freed = [weakref.ref(one) for one in given.values()]
    call = arguments(recipe(), given).ready(jit, Jit)
    del given
    gc.collect()
    assert all(one() is not None for one in freed)
    call("stream")
    assert jit.calls == [((("pointer", 64), 128, "stream"), {})]
    del call
    gc.collect()
    assert all(one() is None for one in freed)


def test_a_wrapper_is_called_with_what_it_takes() -> None:
    jit = Jit(lambda Q, out: None)
    seen: list[Any] = []

    def wrapper(Q: Any, out: Any, size: Any, *, bias: Any = None) -> None:
        seen.append((Q, out, size, bias))
        jit(Q, out)

    def guard(*args: Any, **kwargs: Any) -> None:
        wrapper(*args, **kwargs)

    part = recipe(tensors={"Q": ["f32", [1]], "out": ["f32", [1]], "bias": ["f32", [2]]})
    arguments(part).launch(bind.choose(guard, [], Jit), Jit)
    assert seen == [(("tensor", "f32", (1,)), ("tensor", "f32", (1,)), 1, ("tensor", "f32", (2,)))]


def test_the_named_launcher_is_found_in_what_a_builder_returns() -> None:
    def one() -> None: ...
    def two() -> None: ...

    pair = {"launch": (Jit(one), Jit(two))}
    assert bind.choose(pair, ["two"], Jit).func is two
    assert bind.choose([Jit(one)], [], Jit).func is one
    with pytest.raises(bind.Unsupported, match="expected a launcher three, found one, two"):
        bind.choose(pair, ["three"], Jit)
    with pytest.raises(bind.Unsupported, match="expected one launcher, found one, two"):
        bind.choose(pair, [], Jit)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "kernels" / "moved"
    package.mkdir(parents=True)
    (tmp_path / "kernels" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "some_kernel.py").write_text("def build_it(): return 3\n")
    (package / "needs_more.py").write_text("from json import absent_name\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in [name for name in sys.modules if name.partition(".")[0] == "kernels"]:
        monkeypatch.delitem(sys.modules, name)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "kernels"]:
        del sys.modules[name]


def test_a_module_that_moved_is_found_by_its_file(tree: Path) -> None:
    module = bind.find_module(tree, ["kernels.old.some_kernel"])
    assert bind.find_callable(module, ["compile_it", "build_it"])() == 3
    with pytest.raises(bind.Unsupported, match=r"expected build_other in some_kernel\.py, found build_it"):
        bind.find_callable(module, ["build_other"])
    with pytest.raises(bind.Unsupported, match=r"this checkout has no kernels/norm/absent\.py"):
        bind.find_module(tree, ["kernels.norm.absent"])


def test_a_module_that_needs_another_flydsl_says_so_each_time(tree: Path) -> None:
    for _ in range(2):
        with pytest.raises(
            bind.Unsupported, match=r"API changed: kernels.moved.needs_more does not import: .*absent_name"
        ):
            bind.find_module(tree, ["kernels.moved.needs_more"])
