"""A first time that others on the GPU disturbed plans no endless ring, and a row tells the least cold of its looks."""

from __future__ import annotations

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
