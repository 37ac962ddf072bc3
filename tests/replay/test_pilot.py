"""A first time that others on the GPU disturbed plans no endless ring, and a row tells the least cold of its looks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gate.replay import pilot
from gate.replay.chips import CHIPS
from gate.replay.job import ArmResult
from gate.replay.op import Case
from tests.replay import sim_op

H200 = next(chip for chip in CHIPS if chip.name == "H200")


def first(full: list[float], single: list[float], *, launches: int, m: int = 8) -> float:
    case = Case(shape_id="s", op_type="sim", dtype="bf16", args={"M": m, "N": 64}, layout={})
    times = [99_999.0, *full, *single]
    return pilot.first_time_us(times, launches=launches, op=sim_op.OP, case=case, chip=H200)


def test_the_slope_of_the_least_is_the_first_time() -> None:
    assert first([77.0, 75.0, 300.0], [13.0, 15.0, 900.0], launches=32) == pytest.approx(2.0)


def test_where_every_single_launch_met_others_a_launch_takes_its_share() -> None:
    # 2 launches of 2 ms; each replay of one met 2.5 ms of others.
    assert first([4010.0] * 3, [4510.0] * 3, launches=2) == pytest.approx(1980.0)


def test_no_launch_is_quicker_than_its_bytes() -> None:
    slow = first([60.0] * 3, [60.0] * 3, launches=4, m=1 << 20)
    assert slow == pytest.approx(8.0 * (1 << 20) * 64 / H200.bandwidth_gbps / 1e3)  # type: ignore[operator]


class Clock:
    """A device whose every launch takes `us`, what is timed around a replay 40, and around a call `host_us`; it counts
    the graphs that are open."""

    def __init__(self, us: float, host_us: float = 0.0) -> None:
        self.us, self.host_us, self.queued, self.captured, self.open = us, host_us, 0, 0, 0

    def enqueue(self, launches: int) -> None:
        self.queued += launches

    def capture(self, run: Callable[[], None]) -> Clock:
        before, graph = self.queued, Clock(self.us)
        run()
        graph.queued, graph.close = self.queued - before, self._closed  # type: ignore[method-assign]
        self.captured, self.open = self.captured + 1, self.open + 1
        return graph

    def close(self) -> None:
        raise AssertionError

    def _closed(self) -> None:
        self.open -= 1

    def timed(self, graphs: list[Clock], *, flush: bool) -> list[float]:
        assert flush
        return [40.0 + graph.queued * self.us for graph in graphs]

    def timed_eager(self, run: Callable[[], None], repeats: int) -> list[float]:
        before = self.queued
        for _ in range(repeats):
            run()
        assert self.queued == before + repeats
        return [self.host_us + self.us] * repeats


@pytest.mark.parametrize("host_us", [0.0, 6000.0])
@pytest.mark.parametrize(("us", "first_us", "graphs"), [(20.0, 20.0, 2), (4900.0, 4900.0, 2), (9000.0, 9040.0, 1)])
def test_only_a_launch_of_milliseconds_is_timed_alone(us: float, host_us: float, first_us: float, graphs: int) -> None:
    clock = Clock(us, host_us)
    case = Case(shape_id="s", op_type="sim", dtype="bf16", args={"M": 8, "N": 64}, layout={})
    found, _ = pilot.timed(clock, clock.enqueue, launches=4, op=sim_op.OP, case=case, chip=H200)  # type: ignore[arg-type]
    assert found == pytest.approx(first_us)
    assert (clock.captured, clock.open) == (graphs, 0)


def test_a_row_is_as_cold_as_its_least_cold_look() -> None:
    cold, hot = ({"cache_state": state, "short": short} for state, short in (("cold_hbm", False), ("hot", True)))
    result = ArmResult()
    result.planned(hot)
    result.planned(cold)
    assert result.plan == cold, "nothing was measured by the first"
    result.planned(hot)
    result.visits.append([1.0, 1.0])
    result.planned(cold)
    assert result.plan == hot
    result = ArmResult(visits=[[1.0]], plan=cold)
    result.planned(hot)
    assert result.plan == hot
