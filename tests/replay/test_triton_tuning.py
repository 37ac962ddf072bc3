"""How a Triton config is chosen: the quickest that computes what the first one does, once for a shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from gate.replay.op import Case  # noqa: E402 - only where both are installed
from gate.replay.provider import told_of  # noqa: E402 - only where both are installed
from gate.replay.providers.triton import moe_gemm, tiles, tuning  # noqa: E402 - only where both are installed


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


def test_a_row_can_say_which_config_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "choose", lambda name, configs, key, build, out: configs[1])
    adapter = tuning.tuned_kernel(
        op="gemm",
        dtypes=(),
        detail="tiled",
        configs=lambda case: [{"BM": 16, "num_warps": 4}, {"BM": 64, "num_warps": 8}],
        calls=lambda *_: [],
        key=lambda case: (),
    )
    case: Any = None
    assert told_of(adapter, adapter.prepare(case, {"out": None})) == "BM=64 num_warps=8"


class Queue:
    """A GPU that works off what a host enqueues; both have a clock, in us."""

    def __init__(self) -> None:
        self.host = self.gpu = 0.0

    def put(self, host_us: float, gpu_us: float) -> None:
        self.host += host_us
        self.gpu = max(self.gpu, self.host) + gpu_us

    def event(self, **_: Any) -> SimpleNamespace:
        made = SimpleNamespace(at=0.0)
        made.record = lambda: setattr(made, "at", max(self.gpu, self.host))
        made.elapsed_time = lambda end: (end.at - made.at) / 1e3
        return made


def test_a_choice_is_not_between_the_times_that_the_host_takes_to_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue()
    monkeypatch.setattr(tuning.torch.cuda, "Event", queue.event)
    monkeypatch.setattr(tuning.torch.cuda, "synchronize", lambda: queue.put(max(0.0, queue.gpu - queue.host), 0.0))
    monkeypatch.setattr(tuning, "_flush_source", lambda: SimpleNamespace(sum=lambda: queue.put(10, 32)))

    def launches(gpu_us: float) -> Callable[[], None]:
        def launch() -> None:
            for _ in range(3):
                queue.put(28, gpu_us)

        return launch

    assert tuning._quick_us(launches(4.0)) == pytest.approx(12.0)
    assert tuning._quick_us(launches(6.0)) == pytest.approx(18.0)
