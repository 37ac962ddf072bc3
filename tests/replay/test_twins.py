"""Outputs with the same bytes as ones found right are as right and not computed again; all others are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gate.replay import device_sim
from gate.replay.cell import Cell
from gate.replay.device_sim import SimDevice
from gate.replay.op import Case, Op, Tensors
from gate.replay.sim_options import SimOptions
from gate.replay.timer import RingPlan
from tests.replay import sim_cheating, sim_kernels, sim_op

PLAN = RingPlan(copies=4, launches=8, flush=False, cache_state="cold_hbm", budget_us=1.0)
COMPUTED: list[str] = []


def _reference(case: Case, tensors: Tensors) -> Tensors:
    COMPUTED.append(case.shape_id)
    return sim_op.OP.reference(case, tensors)


COUNTED = Op(**{**{name: getattr(sim_op.OP, name) for name in Op.__slots__}, "reference": _reference})


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    sim_op.GIVEN.clear()
    sim_cheating.WIDENED.clear()
    COMPUTED.clear()
    yield
    device_sim._CURRENT.clear()


def checked(adapter: Any, like: Any = None, *, seed: int = 11) -> dict[str, Any]:
    """The reply to `check` of a fresh process."""
    device = SimDevice(SimOptions(noise=0.0, l2=0.001))
    case = Case(shape_id="s", op_type="sim", dtype="fp32", args={"M": 8, "N": 64}, layout={})
    cell = Cell(device=device, adapter=adapter, op=COUNTED, case=case, seed=seed)
    cell.pilot()
    cell.build(PLAN)
    cell.capture()
    COMPUTED.clear()
    return cell.check(twin=True, like=like)


@pytest.mark.parametrize("adapter", [sim_kernels.good, sim_cheating.own_output])
def test_the_same_bytes_are_judged_once(adapter: Any) -> None:
    first = checked(adapter)
    assert first["findings"] == [] and COMPUTED
    second = checked(adapter, first["right"])
    assert second["findings"] == [] and COMPUTED == []
    assert second["max_abs"] == first["max_abs"] and second["right"] == first["right"]


def test_other_inputs_are_judged() -> None:
    right = checked(sim_kernels.good)["right"]
    assert checked(sim_kernels.good, right, seed=12)["findings"] == [] and COMPUTED


@pytest.mark.parametrize(
    ("adapter", "code"),
    [
        (sim_cheating.slightly_wrong, "wrong_output"),
        (sim_cheating.nothing, "unwritten"),
        (sim_cheating.half_rows, "unwritten"),
        (sim_cheating.wrong_dtype, "wrong_form"),
        (sim_cheating.writes_input, "inputs_changed"),
    ],
)
def test_what_is_wrong_is_found_beside_what_is_right(adapter: Any, code: str) -> None:
    found = checked(adapter, checked(sim_kernels.good)["right"])
    assert code in [finding["code"] for finding in found["findings"]]
    assert found["right"] is None, "a third would be measured by what is wrong"


def test_outputs_of_several_forms_are_one_finding() -> None:
    first = checked(sim_kernels.good)["right"]
    found = checked(sim_cheating.own_output_widens, first)
    assert [finding["code"] for finding in found["findings"]] == ["wrong_form"]


def test_who_is_no_twin_tells_no_digests() -> None:
    device = SimDevice(SimOptions(noise=0.0, l2=0.001))
    case = Case(shape_id="s", op_type="sim", dtype="fp32", args={"M": 8, "N": 64}, layout={})
    cell = Cell(device=device, adapter=sim_kernels.good, op=COUNTED, case=case, seed=11)
    cell.build(PLAN)
    cell.capture()
    assert cell.check()["right"] is None and COMPUTED


def test_a_pilot_tells_how_near_to_the_peak_a_kernel_is() -> None:
    device = SimDevice(SimOptions(noise=0.0))
    shares = []
    for us in (10.0, 20.0):
        case = Case(shape_id="s", op_type="sim", dtype="fp32", args={"M": 64, "N": 64, "us": us}, layout={})
        cell = Cell(device=device, adapter=sim_kernels.good, op=sim_op.OP, case=case, seed=1)
        shares.append(cell.pilot()["peak_share"])
    assert shares[0] == pytest.approx(2 * 64 * 64 / (10e-6 * 60e12), rel=0.01)
    assert shares[1] == pytest.approx(shares[0] / 2, rel=0.01)
