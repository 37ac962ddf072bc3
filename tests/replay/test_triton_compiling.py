"""How Triton kernels are compiled ahead: so many at a time, and what a config that does not fit does."""

from __future__ import annotations

import contextvars
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from triton.runtime._async_compile import active_mode  # noqa: E402 - only where both are installed

from gate.replay import compiling  # noqa: E402 - only where both are installed
from gate.replay.providers.triton import calls, tuning  # noqa: E402 - only where both are installed


class Kernel:
    """A jitted function whose compiles take a moment, and fail where they are told to; it sees what Triton is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.busy, self.most, self.done = 0, 0, 0
        self.launchers: list[tuple[str, int]] = []
        self.lock = threading.Lock()
        driver = SimpleNamespace(launcher_cls=lambda source, metadata: self.launchers.append((source, metadata)))
        monkeypatch.setattr(triton.runtime.driver, "_active", driver)

    def compile(self, number: int) -> SimpleNamespace:
        with self.lock:
            self.busy += 1
            self.most = max(self.most, self.busy)
        time.sleep(0.02)
        with self.lock:
            self.busy, self.done = self.busy - 1, self.done + 1
        if number < 0:
            raise ValueError(f"no code for {number}")
        return SimpleNamespace(src="source", metadata=number)

    def warmup(self, number: int, *, grid: tuple[int, ...]) -> Any:
        del grid
        mode = active_mode.get()
        if mode is None:
            return self.compile(number)
        return mode.submit(number, lambda: self.compile(number), lambda kernel: None)

    def warm_up(self, threads: int, *numbers: int, but: calls.Unfit = ()) -> None:
        context = contextvars.copy_context()
        context.run(compiling.THREADS.set, threads)
        asked = [calls.Call(function=self, arguments=(number,), grid=(1,)) for number in numbers]
        context.run(calls.warm_up, asked, but=but)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_as_many_compiles_at_a_time_as_are_allowed(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    kernel.warm_up(threads, *range(9))
    assert (kernel.most, kernel.done) == (max(threads, 1), 9)
    # Where only code is wanted there may be no driver to build for.
    assert sorted(kernel.launchers) == [("source", number) for number in range(9 if threads else 0)]


def test_a_compile_that_fails_beside_others_is_told_and_the_next_ones_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    with pytest.raises(ValueError, match="no code for -1"):
        kernel.warm_up(3, 1, -1, 2)
    assert kernel.done == 3
    kernel.warm_up(3, 4)
    assert kernel.done == 4


def test_a_triton_without_launchers_of_its_own_has_none_built(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    monkeypatch.setattr(triton.runtime.driver, "_active", SimpleNamespace())
    kernel.warm_up(1, 1)
    assert kernel.done == 1 and not kernel.launchers


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("given", [None, [SimpleNamespace(src="source", metadata=0)]])
def test_a_warm_up_that_gives_no_kernel_of_its_own_has_no_launcher_built(
    threads: int, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(monkeypatch)
    monkeypatch.setattr(kernel, "warmup", lambda number, grid: given)
    kernel.warm_up(threads, 1)
    assert not kernel.launchers


@pytest.mark.parametrize("threads", [1, 3])
def test_a_config_that_does_not_fit_is_left_out_and_the_others_compile(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(monkeypatch)
    kernel.warm_up(threads, 1, -1, 2, but=(ValueError,))
    assert sorted(kernel.launchers) == [("source", 1), ("source", 2)]
    with pytest.raises(ValueError, match="no code"):
        kernel.warm_up(threads, 3, -1, but=(KeyError,))


@pytest.mark.parametrize("threads", [0, 2])
def test_only_who_launches_passes_over_a_config_that_does_not_fit(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[calls.Unfit] = []
    monkeypatch.setattr(tuning, "on_paper", lambda case: {})
    monkeypatch.setattr(tuning, "warm_up", lambda asked, *, but: given.append(but))
    adapter = tuning.tuned_kernel(
        op="gemm", dtypes=(), detail="", configs=lambda case: [], calls=lambda *_: [], key=lambda case: ()
    )
    context = contextvars.copy_context()
    context.run(compiling.THREADS.set, threads)
    case: Any = None
    context.run(adapter.compile, case)
    assert given == [tuning.UNFIT if threads else ()]
