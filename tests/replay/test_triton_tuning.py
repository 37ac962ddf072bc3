"""How a Triton config is chosen: the quickest that computes what the first one does, once for a shape."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from triton.runtime._async_compile import active_mode  # noqa: E402 - only where both are installed

from gate.replay import compiling  # noqa: E402 - only where both are installed
from gate.replay.op import Case  # noqa: E402 - only where both are installed
from gate.replay.providers.triton import calls, moe_gemm, tiles, tuning  # noqa: E402 - only where both are installed


class Bench:
    """Configs that say what they write and how long they take."""

    def __init__(self) -> None:
        self.out, self.built = torch.zeros(4), 0

    def build(self, config: dict[str, Any]) -> Callable[[], Any]:
        self.built += 1

        def launch() -> Any:
            if config.get("unfit"):
                raise triton.runtime.errors.OutOfResources(2, 1, "shared memory")
            self.out.fill_(config["value"])
            return config["us"]

        return launch


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "_CHOSEN", {})
    monkeypatch.setattr(tuning, "_quick_us", lambda launch: launch())
    target = SimpleNamespace(backend="cuda", arch=90)
    monkeypatch.setattr(triton.runtime.driver, "_active", SimpleNamespace(get_current_target=lambda: target))
    return Bench()


def test_the_quickest_is_kept_for_every_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [{"value": 1.0, "us": 3.0}, {"value": 1.01, "us": 1.0}, {"value": 1.0, "us": 2.0}]
    assert tuning.choose("gemm", configs, (1, 2), bench.build, bench.out) == configs[1]
    assert bench.built == 3
    monkeypatch.setattr(tuning, "_CHOSEN", {})
    assert tuning.choose("gemm", configs, (1, 2), bench.build, bench.out) == configs[1]
    assert bench.built == 3, "another process tried again"
    tuning.choose("gemm", configs, (1, 3), bench.build, bench.out)
    assert bench.built == 6, "another shape was not tried"


def test_a_damaged_choice_is_made_again(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [{"value": 1.0, "us": 3.0}, {"value": 1.0, "us": 2.0}]
    tuning.choose("gemm", configs, (1, 2), bench.build, bench.out)
    (kept,) = (tmp_path / "gate-tuned").iterdir()
    whole = kept.read_text()
    kept.write_text(whole[:5])
    monkeypatch.setattr(tuning, "_CHOSEN", {})
    assert tuning.choose("gemm", configs, (1, 2), bench.build, bench.out) == configs[1]
    assert [path.read_text() for path in (tmp_path / "gate-tuned").iterdir()] == [whole]


def test_one_that_does_not_fit_or_computes_something_else_is_not_taken(bench: Bench) -> None:
    wrong, unfit = {"value": 1.5, "us": 0.1}, {"value": 1.0, "us": 0.1, "unfit": True}
    nonfinite = {"value": float("nan"), "us": 0.1}
    configs = [unfit, {"value": 1.0, "us": 3.0}, wrong, nonfinite, {"value": 1.0, "us": 2.0}]
    assert tuning.choose("gemm", configs, (), bench.build, bench.out) == configs[-1]


def test_where_none_fits_the_reason_is_said(bench: Bench) -> None:
    configs = [{"value": 1.0, "us": 1.0, "unfit": True, "number": number} for number in range(2)]
    with pytest.raises(RuntimeError, match="no configuration of 2 of gemm fits"):
        tuning.choose("gemm", configs, (), bench.build, bench.out)


def test_the_parts_of_k_fill_the_gpu(bench: Bench) -> None:
    del bench
    tile = {"BM": 16, "BN": 64, "BK": 128}
    units = tuning.units()
    assert tiles.parts_for(tile, m=1, n=64 * units, k=8192) == [1]
    few = tiles.parts_for(tile, m=1, n=64, k=8192)
    assert max(few) == tiles.MOST_PARTS and tiles.parts_for(tile, m=1, n=64, k=256) == [1]
    assert tiles.tiles_for(1, width=2, narrow=False)[0]["BM"] == 16
    assert {tile["NATIVE"] for tile in tiles.tiles_for(8, width=1, narrow=True)} == {False, True}
    assert {tile["NATIVE"] for tile in tiles.tiles_for(8, width=1, narrow=False)} == {False}


def test_on_cdna_scales_by_group_take_no_tile_whose_two_sums_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "on_amd", lambda: True)
    wide = [(tile["BM"], tile["BN"]) for tile in tiles.tiles_for(4096, width=1, narrow=False)]
    grouped = [(tile["BM"], tile["BN"]) for tile in tiles.tiles_for(4096, width=1, narrow=False, grouped=True)]
    assert (256, 256) in wide and max(rows * columns for rows, columns in grouped) == 128 * 256
    for rows in (1, 512):
        one = tiles.tiles_for(rows, width=1, narrow=False)
        assert tiles.tiles_for(rows, width=1, narrow=False, grouped=True) == one


def test_scales_by_group_or_block_leave_half_the_registers_of_an_nvidia_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "on_amd", lambda: False)
    monkeypatch.setattr(tiles, "native_mx", lambda: (False,))

    def accumulators(config: tuning.Config, sums: int) -> float:
        """Registers of the sums and of a step's own products, for a thread."""
        return 2 * sums * config["BM"] * config["BN"] / (32 * config["num_warps"])

    for rows in (1, 512, 4096):
        found = tiles.tiles_for(rows, width=1, narrow=False, grouped=True)
        assert max(accumulators(config, 1) for config in found) <= 128
    for tokens, heights in ((8, {16}), (1024, {32}), (2048, {64}), (8192, {64, 128})):
        args = {"M": tokens, "TopK": 8, "E": 256, "Dim1": 7168, "Dim2": 512}
        case = Case(shape_id="", op_type="moe_blockscale", dtype="fp8", args=args, layout={})
        configs = moe_gemm._configs(case, "blocks")
        assert {config["BM"] for config in configs} == heights
        assert max(accumulators(config, 2) for config in configs) <= 128


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
