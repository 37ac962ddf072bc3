"""Every deliberately bad kernel is caught, by the check that is meant for it; an honest one passes them all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from gate.replay import device_sim, integrity
from gate.replay.cell import Cell
from gate.replay.chips import CHIPS
from gate.replay.device import KernelTime
from gate.replay.device_sim import SimDevice
from gate.replay.op import Case, Op
from gate.replay.provider import ProviderAdapter
from gate.replay.sim_options import SimOptions
from gate.replay.timer import RingPlan
from tests.replay import sim_cheating, sim_kernels, sim_op
from tests.replay.sim_op import launch_work


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    sim_op.GIVEN.clear()
    yield
    device_sim._CURRENT.clear()


def run(
    adapter: Any, *, op: Op = sim_op.OP, copies: int = 4, laps: int = 2, device: SimDevice | None = None, **args: Any
) -> list[str]:
    """The codes of all findings, in the order in which a worker would report them."""
    device = device or SimDevice(SimOptions(noise=0.0, l2=0.001))
    case = Case(shape_id="s", op_type="sim", dtype="fp32", args={"M": 8, "N": 64, **args}, layout={})
    assert isinstance(adapter, ProviderAdapter)
    cell = Cell(device=device, adapter=adapter, op=op, case=case, seed=11)
    cell.pilot()
    cell.build(RingPlan(copies=copies, launches=copies * laps, flush=False, cache_state="cold_hbm", budget_us=1.0))
    findings = cell.capture()["findings"] + cell.check()["findings"] + cell.profile()["findings"]
    times = [cell.visit("graph_slope").t_us for _ in range(3)]
    findings += cell.finish(times, slope=True)["findings"] + cell.recheck()["findings"]
    cell.release()
    return [finding["code"] for finding in findings]


def test_an_honest_kernel_passes() -> None:
    assert run(sim_kernels.good) == []


def test_a_kernel_that_allocates_its_own_output_passes() -> None:
    assert run(sim_cheating.own_output) == []


def test_an_output_of_another_dtype_in_a_later_copy_is_caught() -> None:
    sim_cheating.WIDENED.clear()
    assert run(sim_cheating.own_output_widens) == ["wrong_form", "stale_output"]


@pytest.mark.parametrize(
    ("adapter", "code"),
    [
        (sim_cheating.other_stream, "executed_in_capture"),
        (sim_cheating.Spaced("sim"), "executed_in_capture"),
        (sim_cheating.cached_for_all, "wrong_output"),
        (sim_cheating.cached_output, "stale_output"),
        (sim_cheating.first_call_only, "unwritten"),
        (sim_cheating.half_rows, "unwritten"),
        (sim_cheating.in_place, "wrong_output"),
        (sim_cheating.writes_input, "inputs_changed"),
        (sim_cheating.nan_output, "nonfinite_output"),
        (sim_cheating.slightly_wrong, "wrong_output"),
        (sim_cheating.wrong_dtype, "wrong_form"),
        (sim_cheating.changes_kernels, "wrong_nodes"),
    ],
)
def test_a_bad_kernel_is_caught(adapter: ProviderAdapter, code: str) -> None:
    assert run(adapter)[0] == code


def test_a_reference_that_writes_the_output_hides_nothing() -> None:
    assert run(sim_cheating.nothing, op=sim_op.BAD_REFERENCE)[0] == "unwritten"


def test_a_kernel_that_skips_its_work_in_the_graph_has_an_empty_graph() -> None:
    assert run(sim_cheating.first_call_only) == ["unwritten", "empty_graph"]


def test_a_time_below_what_the_bytes_take_breaks_physics() -> None:
    # 2 x 4 x 4096 x 512 bytes at 4000 GB/s are 4.2 us; the kernel says 1.
    assert run(sim_cheating.too_fast, M=4096, N=512) == ["physics"]


def test_a_graph_that_disagrees_with_the_profiler_is_caught() -> None:
    assert run(sim_cheating.lying_graph) == ["profile_disagrees"]


class Uneven(ProviderAdapter):
    """Takes `first` microseconds on the ring's first copy and `others` on each other one, as routed tokens may fall."""

    provider = "flydsl"

    def __init__(self, first: float, others: float) -> None:
        super().__init__("sim")
        self.us, self.made = (first, others), 0

    def prepare(self, case: Case, tensors: Any) -> Any:
        self.made += 1
        return tensors, self.us[self.made > 1]

    def launch(self, state: Any) -> None:
        tensors, us = state
        launch_work(tensors, us=us)


@pytest.mark.parametrize("copies", [2, 4])
@pytest.mark.parametrize(("first", "others"), [(20.0, 30.0), (30.0, 20.0)])
def test_a_kernel_may_take_other_times_on_other_copies(copies: int, first: float, others: float) -> None:
    device = SimDevice(SimOptions(noise=0.0, l2=0.001))
    case = Case(shape_id="s", op_type="sim", dtype="fp32", args={"M": 8, "N": 64}, layout={})
    cell = Cell(device=device, adapter=Uneven(first, others), op=sim_op.OP, case=case, seed=11)
    plan = RingPlan(copies=copies, launches=copies, flush=True, cache_state="cold_hbm", budget_us=1.0)
    cell.build(plan)
    cell.capture()
    assert cell.profile()["profiled_us"] == pytest.approx(first, rel=0.05)
    told = cell.finish([cell.visit("graph_slope").t_us], slope=True)
    assert told["findings"] == [] and told["profiled_us"] == pytest.approx(others, rel=0.05)


class Disturbed(SimDevice):
    """The profiles that `hit` marks x see half as long again, those with a dash nothing; replays are counted."""

    hit, replays = "", 0

    def profile(self, run: Any) -> tuple[KernelTime, ...]:
        now, self.hit = self.hit[:1], self.hit[1:]
        found = () if now == "-" else super().profile(run)
        return tuple(KernelTime(name=one.name, us=one.us * (1.5 if now == "x" else 1)) for one in found)

    def replay(self, graph: Any) -> None:
        self.replays += 1
        super().replay(graph)


@pytest.mark.parametrize(
    ("hit", "codes"),
    [
        ("......", []),
        ("x.....", []),
        ("xx..x.", []),
        # One call of six that agrees by chance is no proof.
        ("xxxxx.", ["profile_disagrees"]),
        ("x.xx.x", ["profile_disagrees"]),
        # Neither is what sees nothing.
        ("x-----", ["profile_disagrees"]),
        ("x--x-x", ["profile_disagrees"]),
        ("x--.-.", []),
    ],
)
def test_most_profiled_calls_behind_a_load_decide(monkeypatch: pytest.MonkeyPatch, hit: str, codes: list[str]) -> None:
    monkeypatch.setattr(Disturbed, "hit", hit)
    assert run(sim_kernels.good, device=Disturbed(SimOptions(noise=0.0, l2=0.001)), us=30.0) == codes


def test_a_kernel_that_seems_to_take_no_time_is_not_replayed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disturbed, "hit", "x" * 9)
    device = Disturbed(SimOptions(noise=0.0, l2=0.001))
    case = Case(shape_id="s", op_type="sim", dtype="fp32", args={"M": 8, "N": 64, "us": 30.0}, layout={})
    cell = Cell(device=device, adapter=sim_kernels.good, op=sim_op.OP, case=case, seed=1)
    cell.build(RingPlan(copies=2, launches=2, flush=False, cache_state="cold_hbm", budget_us=1.0))
    cell.capture()
    cell.profile()
    codes = [finding["code"] for finding in cell.finish([0.01] * 3, slope=True)["findings"]]
    assert codes[0] == "profile_disagrees" and device.replays <= 5 * 200


def test_short_kernels_are_not_held_to_the_profiler() -> None:
    assert integrity.profile_disagrees(t_us=5.0, profiled_us=15.0) is None
    assert integrity.profile_disagrees(t_us=30.0, profiled_us=None) is None
    assert integrity.profile_disagrees(t_us=5.0, profiled_us=30.0) is not None


def test_the_eager_call_must_run_as_many_kernels_as_the_graph_holds() -> None:
    eager = [KernelTime(name="a", us=1.0), KernelTime(name="b", us=1.0)]
    finding = integrity.wrong_nodes(full=["a"] * 4, single=["a"], launches=4, eager=eager)
    assert finding is not None and finding.text == "kernels: 2 in one eager call, 1 in the graph of one call"
    assert integrity.wrong_nodes(full=["a"] * 4, single=["a"], launches=4, eager=eager[:1]) is None
    assert integrity.wrong_nodes(full=None, single=None, launches=4, eager=eager) is None
    longer = integrity.wrong_nodes(full=["a"] * 5, single=["a"], launches=4, eager=[])
    assert longer is not None and longer.code == "wrong_nodes"


def test_flops_bound_the_time_whatever_the_caches_hold() -> None:
    h200 = next(chip for chip in CHIPS if chip.name == "H200")
    facts: dict[str, Any] = {"bytes_moved": 1e9, "dtype": "bf16", "chip": h200}
    # 989 TFLOP/s: 1e12 flops take 1011 us; 1e9 bytes take 208 us from memory, less from a cache.
    assert integrity.breaks_physics(t_us=1000.0, flops=1e12, cold=False, **facts) is None
    assert integrity.breaks_physics(t_us=900.0, flops=1e12, cold=False, **facts) is not None
    assert integrity.breaks_physics(t_us=150.0, flops=1.0, cold=True, **facts) is not None
    assert integrity.breaks_physics(t_us=150.0, flops=1.0, cold=False, **facts) is None


def test_a_canary_may_move_by_three_percent() -> None:
    first = {"spin": 100.0, "copy": 120.0}
    assert integrity.canary_drift(first, {"spin": 102.9, "copy": 140.0}) is None
    told = integrity.canary_drift(first, {"spin": 96.5, "copy": 120.0})
    assert told is not None and "spin canary went from 100.0 to 96.5" in told
    assert integrity.canary_drift(first, {"spin": 109.0}, 0.1) is None


@pytest.mark.parametrize("times", [[], [math.nan], [1.0, math.inf], [0.0], [-1.0, 2.0]])
def test_impossible_times_are_findings(times: list[float]) -> None:
    finding = integrity.invalid_time(times)
    assert finding is not None and finding.code == "invalid_time" and finding.status == "failed"
