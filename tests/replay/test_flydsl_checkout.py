"""A checkout's kernels as providers: given by name what its launchers take, refused in its own words."""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate.replay.provider import NoKernel, ProviderAdapter, load_entrypoint
from gate.replay.providers.flydsl import checkout
from tests.replay.on_cpu import case_for

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
STREAM = types.SimpleNamespace(cuda_stream=1)
NUMBERS = itertools.count()
HEADER = "from recorded_flydsl import Int32, Jit, Pointer, Stream, Tensor\n"
RMSNORM = """
def build_rmsnorm_module(N, dtype_str, eps=1e-5):
    if N > 9000:
        raise ValueError(f"N = {N} must be at most 9000")

    @Jit
    def launch_rmsnorm(Input: Tensor, Gamma: Tensor, Output: Tensor, m_in: Int32, stream: Stream = None): ...

    return launch_rmsnorm
"""


class Jit:
    """Stands for FlyDSL's launcher: it keeps the function and records how it is called."""

    def __init__(self, func: Any) -> None:
        self.func = func

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        CALLS.append((self.func.__name__, args, kwargs))


class Tensor:
    """A tensor of which nobody reads more than this."""

    def __init__(self, name: str, address: int = 4096) -> None:
        self.name, self.address = name, address

    def data_ptr(self) -> int:
        return self.address

    def element_size(self) -> int:
        return 2

    def dim(self) -> int:
        return 1 if self.name == "weight" else 2


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The kernels folder of a checkout, a FlyDSL that records, and a torch with one stream."""
    CALLS.clear()
    names = ("Int32", "Pointer", "Stream", "Tensor")
    recorded = types.SimpleNamespace(Jit=Jit, **{name: type(name, (), {}) for name in names})
    expr = types.SimpleNamespace(Stream=lambda pointer: ("stream", pointer), Uint8="u8")
    compiler = types.SimpleNamespace(from_c_void_p=lambda kind, address: ("pointer", kind, address))
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(current_stream=lambda: STREAM))
    for name, module in (
        ("recorded_flydsl", recorded),
        ("torch", torch),
        ("flydsl", types.ModuleType("flydsl")),
        ("flydsl.expr", expr),
        ("flydsl.compiler", compiler),
        ("flydsl.compiler.jit_function", types.SimpleNamespace(JitFunction=Jit)),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv("COMPILE_ONLY", raising=False)
    folder = tmp_path / f"checkout{next(NUMBERS)}" / "kernels"
    (folder / "norm").mkdir(parents=True)
    for path in (folder / "__init__.py", folder / "norm" / "__init__.py"):
        path.write_text("")
    (folder / "norm" / "rmsnorm_kernel.py").write_text(HEADER + RMSNORM)
    monkeypatch.setenv(checkout.VARIABLE, str(folder.parent))
    forget()
    yield folder
    monkeypatch.undo()
    forget()
    if str(folder.parent) in sys.path:
        sys.path.remove(str(folder.parent))


def forget() -> None:
    checkout.root.cache_clear()
    checkout._built.cache_clear()
    for name in [name for name in sys.modules if name == "kernels" or name.startswith("kernels.")]:
        del sys.modules[name]


def adapter(op: str) -> ProviderAdapter:
    return load_entrypoint(f"gate.replay.providers.flydsl:{op}", op)


def test_a_launcher_gets_its_arguments_by_name_and_the_stream_of_the_call(kernels: Path) -> None:
    one, found = case_for("rmsnorm", "bf16", M=3, N=64), adapter("rmsnorm")
    tensors = {name: Tensor(name) for name in ("x", "weight", "out")}
    assert found.supports(one) is None
    state = found.prepare(one, tensors)
    for pointer in (1, 7):
        STREAM.cuda_stream = pointer
        found.launch(state)
    STREAM.cuda_stream = 1
    expected = (tensors["x"], tensors["weight"], tensors["out"], 3)
    assert [(name, args) for name, args, _ in CALLS] == [
        ("launch_rmsnorm", (*expected, ("stream", 1))),
        ("launch_rmsnorm", (*expected, ("stream", 7))),
    ]
    assert found.describe(one) == "kernels.norm.rmsnorm_kernel:build_rmsnorm_module"


def test_an_older_launcher_takes_the_same_in_another_order_and_as_pointers(kernels: Path) -> None:
    older = RMSNORM.replace(
        "Input: Tensor, Gamma: Tensor, Output: Tensor", "Output: Pointer, Input: Pointer, Gamma: Pointer"
    )
    (kernels / "norm" / "rmsnorm_kernel.py").write_text(HEADER + older.replace("(N, dtype_str", "(M, N, dtype_str"))
    one, found = case_for("rmsnorm", "bf16", M=3, N=64), adapter("rmsnorm")
    tensors = {name: Tensor(name, index) for index, name in enumerate(("x", "weight", "out"))}
    assert found.supports(one) is None
    found.launch(found.prepare(one, tensors))
    pointers = tuple(("pointer", "u8", index) for index in (2, 0, 1))
    assert CALLS[-1][1] == (*pointers, 3, ("stream", 1))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"M": 3, "N": 9001}, "N = 9001 must be at most 9000"),
        ({"M": 3, "N": 0}, "N must be a positive integer, got 0"),
        ({"M": 3}, "N must be a positive integer, got None"),
    ],
)
def test_a_refusal_is_in_the_kernels_words(kernels: Path, args: dict[str, Any], words: str) -> None:
    assert adapter("rmsnorm").supports(case_for("rmsnorm", "bf16", **args)) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def build(): ...\n", "API changed: expected build_rmsnorm_module in rmsnorm_kernel.py, found no builder"),
        ("import no_such_package\n", "kernels.norm.rmsnorm_kernel does not import: No module named 'no_such_package'"),
        ("def build_rmsnorm_module(rows, dtype_str): ...\n", "expected build_rmsnorm_module(N, dtype_str), found"),
        ("def build_rmsnorm_module(N, dtype_str): return 1 / 0\n", "cannot be built: ZeroDivisionError"),
        ("def build_rmsnorm_module(N, dtype_str): return {}['a']\n", "cannot be built: KeyError 'a'"),
    ],
)
def test_what_is_not_there_is_said_and_not_raised(kernels: Path, text: str, words: str) -> None:
    (kernels / "norm" / "rmsnorm_kernel.py").write_text(text)
    assert words in (adapter("rmsnorm").supports(case_for("rmsnorm", "bf16", M=3, N=64)) or "")


def test_a_launcher_that_asks_for_more_is_told_from_one_that_does_not(kernels: Path) -> None:
    more = RMSNORM.replace("m_in: Int32", "m_in: Int32, Mystery: Tensor")
    (kernels / "norm" / "rmsnorm_kernel.py").write_text(HEADER + more)
    one, found = case_for("rmsnorm", "bf16", M=3, N=64), adapter("rmsnorm")
    with pytest.raises(NoKernel, match="API changed: the launcher asks for Mystery, which is not given"):
        found.prepare(one, {name: Tensor(name) for name in ("x", "weight", "out")})


def test_an_op_that_no_checkout_has_runs_the_gates_own_kernel(kernels: Path) -> None:
    found = adapter("vec_add")
    assert found.supports(case_for("vec_add", "bf16", N=64)) is None
    assert found.describe(case_for("vec_add", "bf16", N=64)) == "the gate's own kernel: one vector a lane"


def test_without_a_checkout_it_is_said_how_to_name_one(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkout, "root", lambda: None)
    assert "set FLYDSL_CHECKOUT" in (adapter("layernorm").supports(case_for("layernorm", "bf16", M=3, N=64)) or "")
    assert adapter("rmsnorm").supports(case_for("rmsnorm", "bf16", M=3, N=64)) is None


def test_a_checkout_on_the_path_is_found(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(checkout.VARIABLE)
    monkeypatch.setattr(sys, "path", [str(kernels.parent)])
    forget()
    assert checkout.root() == kernels.parent.resolve()
