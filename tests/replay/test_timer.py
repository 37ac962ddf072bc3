"""The ring plan, the slope, the floor, the summary and the coldness verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.replay import coldness, timer
from gate.replay.chips import CHIPS, MIB, Chip, chip_for
from gate.replay.device_sim import SimDevice
from gate.replay.sim_options import SimOptions

H200 = next(chip for chip in CHIPS if chip.name == "H200")
MI350X = next(chip for chip in CHIPS if chip.name == "MI350X")
GIB = 1024 * MIB


@given(
    footprint=st.integers(1, 64 * GIB),
    estimate=st.floats(0.05, 1e5),
    chip=st.sampled_from([H200, MI350X]),
    free=st.sampled_from([4 * GIB, 128 * GIB]),
)
def test_a_plan_keeps_its_promises(footprint: int, estimate: float, chip: Chip, free: int) -> None:
    plan = timer.plan_ring(footprint_bytes=footprint, estimate_us=estimate, chip=chip, free_bytes=free)
    fewest = 2 if estimate >= timer.GRAPH_BUDGET_US else 3
    assert plan.launches >= fewest
    assert plan.launches % plan.copies == 0 or plan.launches == fewest
    between = (plan.copies - 1) * footprint
    if plan.flush:
        assert plan.launches == plan.copies and plan.cache_state == "cold_hbm"
    elif plan.cache_state == "cold_hbm":
        assert between >= chip.evict_bytes
    else:
        assert between < chip.evict_bytes
    assert plan.copies * footprint <= max(timer.RING_BYTES, 2 * footprint)


def test_evicting_an_mi350x_takes_576_mb() -> None:
    assert MI350X.evict_bytes == 576 * MIB
    assert H200.evict_bytes == 240 * MIB


def test_a_plan_asks_for_about_the_budget() -> None:
    plan = timer.plan_ring(footprint_bytes=32 * MIB, estimate_us=10.0, chip=H200, free_bytes=128 * GIB)
    assert plan.launches == pytest.approx(200, abs=1)
    assert not plan.flush
    tiny = timer.plan_ring(footprint_bytes=3000, estimate_us=1.0, chip=H200, free_bytes=128 * GIB)
    assert tiny.flush and tiny.copies == tiny.launches == 2000


def test_a_card_without_room_gets_an_honest_label() -> None:
    # 20 MB are affordable: 10 copies of 2 MB pass between two uses, far less than the caches hold.
    plan = timer.plan_ring(footprint_bytes=2 * MIB, estimate_us=5.0, chip=H200, free_bytes=80 * MIB)
    assert plan.cache_state == "hot" and not plan.flush and plan.short
    # On an MI350X 300 MB pass L2 but not the memory-side cache.
    plan = timer.plan_ring(footprint_bytes=4 * MIB, estimate_us=5.0, chip=MI350X, free_bytes=1200 * MIB)
    assert plan.cache_state == "cold_l2" and plan.short
    # Memory of its own is all there for it; a state that no ring makes cold is not short of memory.
    facts = {"footprint_bytes": 2 * MIB, "estimate_us": 5.0, "chip": H200}
    own, little = (timer.plan_ring(free_bytes=None, most_bytes=most, **facts) for most in (GIB, 20 * MIB))  # type: ignore[arg-type]
    assert own.cache_state == "cold_hbm" and little.cache_state == "hot" and not (own.short or little.short)


def test_a_smaller_ring_goes_round_more_often_and_stays_cold() -> None:
    facts = {"footprint_bytes": 8 * MIB, "estimate_us": 5.0, "chip": H200, "free_bytes": 128 * GIB}
    whole, half = timer.plan_ring(**facts), timer.plan_ring(**facts, most_bytes=GIB)  # type: ignore[arg-type]
    assert whole.copies == 200 and half.copies == 100
    assert whole.launches == half.launches == 400 and half.cache_state == "cold_hbm" and not half.flush


def test_a_ring_whose_place_does_not_matter_is_no_larger_than_coldness_needs() -> None:
    assert timer.room(H200, 4 * GIB) == 3 * H200.evict_bytes
    assert timer.room(MI350X, GIB) == int(GIB / timer.SPREAD_FACTOR)
    for footprint in (MIB, 100 * MIB, 230 * MIB, 600 * MIB):
        plan = timer.plan_ring(
            footprint_bytes=footprint,
            estimate_us=5.0,
            chip=H200,
            free_bytes=128 * GIB,
            most_bytes=timer.room(H200, 4 * GIB),
        )
        assert plan.cache_state == "cold_hbm" and not plan.flush


def test_a_long_launch_is_replayed_as_seldom_as_its_slope_allows() -> None:
    facts = {"footprint_bytes": 600 * MIB, "chip": H200, "free_bytes": 128 * GIB}
    for budget_us in (500.0, 2000.0):
        plans = (
            timer.plan_ring(estimate_us=us, budget_us=budget_us, **facts)  # type: ignore[arg-type]
            for us in (budget_us, 0.9 * budget_us)
        )
        assert [(plan.launches, plan.replays) for plan in plans] == [(2, 1), (3, timer.REPLAYS)]


def test_the_slope_cancels_the_floor() -> None:
    for floor in (0.0, 4.2, 12.8):
        full, single = floor + 100 * 1.7, floor + 1.7
        assert timer.slope_us(full_us=[full], single_us=[single], launches=100) == pytest.approx(1.7)


def sim(**options: float) -> SimDevice:
    return SimDevice(SimOptions(**{"noise": 0.0, **options}))  # type: ignore[arg-type]


def graphs(device: SimDevice, us: float, launches: int) -> tuple[object, object]:
    def once() -> None:
        device.launch("k", None, us=us)

    def many() -> None:
        for _ in range(launches):
            once()

    return device.capture(many), device.capture(once)


def test_a_visit_recovers_the_kernels_own_time_where_the_legacy_method_reads_the_floor() -> None:
    device = sim(floor=12.8)
    full, single = graphs(device, 2.0, 500)
    plan = timer.RingPlan(copies=500, launches=500, flush=True, cache_state="cold_hbm", budget_us=1000.0)
    visit = timer.visit_slope(device, full=full, single=single, plan=plan)
    assert visit.t_us == pytest.approx(2.0)
    assert timer.visit_one_launch(device, single=single).t_us == pytest.approx(14.8)


def test_the_first_replay_of_a_visit_is_discarded() -> None:
    class SlowFirst(SimDevice):
        def timed(self, graphs: object, *, flush: bool) -> list[float]:
            times = super().timed(graphs, flush=flush)  # type: ignore[arg-type]
            return [times[0] * 55, *times[1:]]

    device = SlowFirst(SimOptions(noise=0.0))
    full, single = graphs(device, 2.0, 100)
    plan = timer.RingPlan(copies=100, launches=100, flush=False, cache_state="cold_hbm", budget_us=1000.0)
    assert timer.visit_slope(device, full=full, single=single, plan=plan).t_us == pytest.approx(2.0)


def test_floor_and_dispatch_bound() -> None:
    floor = timer.session_floor_us(sim(gap=1.3))
    assert floor == pytest.approx(1.3)
    assert timer.is_dispatch_bound(1.5, floor)
    assert not timer.is_dispatch_bound(1.6, floor)


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=40), st.sampled_from([0.1, 0.5, 0.9]))
def test_quantiles_are_numpys(values: list[float], share: float) -> None:
    assert timer.quantile(values, share) == pytest.approx(float(np.quantile(values, share)))


def test_a_summary_knows_a_stable_series_from_an_unstable_one() -> None:
    assert timer.summarise([1.0, 1.01, 1.02]).stable
    assert not timer.summarise([1.0, 1.0, 1.0, 1.4, 1.4]).stable


@pytest.mark.parametrize("bad", [[], [math.nan], [1.0, 0.0], [1.0, -2.0], [math.inf]])
def test_no_summary_of_impossible_times(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="finite and positive"):
        timer.summarise(bad)


def test_the_coldness_self_test_tells_a_cold_ring_from_a_warm_one() -> None:
    device = sim(l2=16.0, warm=0.4, gap=0.0)
    probes = coldness.probe_all(device, [4 * MIB, 64 * MIB])
    assert coldness.verdict(probes, device.facts.chip) is None
    assert probes[0].hot_gbps > 2 * probes[0].cold_gbps
    no_effect = sim(l2=16.0, warm=1.0, gap=0.0)
    verdict = coldness.verdict(coldness.probe_all(no_effect, [4 * MIB]), no_effect.facts.chip)
    assert verdict is not None and "no faster" in verdict


def test_a_rotated_rate_above_memorys_is_not_cold() -> None:
    probes = [coldness.Probe(bytes=4 * MIB, hot_gbps=9000.0, cold_gbps=6000.0)]
    verdict = coldness.verdict(probes, H200)
    assert verdict is not None and "above memory's 4800" in verdict


def test_unknown_chips_err_to_the_safe_side() -> None:
    amd = chip_for("AMD Instinct MI999", l2_bytes=4 * MIB, amd=True)
    assert amd.mall_bytes == 256 * MIB and amd.bandwidth_gbps is None
    assert chip_for("AMD Instinct MI350X", l2_bytes=4 * MIB, amd=True).l2_bytes == 32 * MIB
    h200 = chip_for("NVIDIA H200", l2_bytes=60 * MIB, amd=False)
    assert h200.peak_tflops("fp16") == 989
    # Every dtype of a product has a bound, also where the chip has no units for it.
    assert [h200.peak_tflops(dtype) for dtype in ("int8", "fp4", "mixed_a8w4", "mixed_a16w4")] == [1979] * 4
    assert chip_for("AMD Instinct MI350X", l2_bytes=4 * MIB, amd=True).peak_tflops("mixed_a8w4") == 9200
