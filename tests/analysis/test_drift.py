"""Slow drift against a pinned release: two real sessions of the same code, and what is taken out by the controls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.analysis.drift import OpDrift, drift, sentences
from gate.model.ledger import Ledger
from gate.model.policy import Policy
from tests.analysis import build

SESSIONS = Path(__file__).resolve().parents[1] / "data" / "h200_sessions"
LEDGER = build.ledger(8)
NAMES = ("base", "head")


def found(release: Any, head: Any, policy: Policy | None = None) -> OpDrift:
    return drift(LEDGER, build.matrix(), release=release, head=head, policy=policy or Policy())


def night(seed: int, **how: Any) -> Any:
    return build.run(LEDGER, seed=seed, session_id=f"night-{seed}", **how)


# The tiles of the Triton gemm are picked anew by timing in each session, so its two sessions are not the same code.
@pytest.mark.parametrize("op", ["rmsnorm", "softmax", "vec_add"])
@pytest.mark.parametrize("release", NAMES)
@pytest.mark.parametrize("head", NAMES)
def test_two_h200_sessions_of_the_same_kernels_show_no_drift(op: str, release: str, head: str) -> None:
    shapes = store.read_ledger(SESSIONS / "shape_ledger.jsonl").shapes
    own = Ledger(shapes=tuple(shape for shape in shapes if shape.op_type == op))
    matrix = build.matrix(op, rivals=("triton", "pytorch"), candidate_provider="triton")
    before = store.read_results(SESSIONS / "first" / f"{release}.jsonl")
    after = store.read_results(SESSIONS / "second" / f"{head}.jsonl")
    one = drift(own, matrix, release=before, head=after, policy=Policy())
    assert (one.state, one.n) == ("ok", len(own.shapes))
    assert one.ratio is not None and 0.985 < one.ratio < 1.015
    assert all(0.97 < row.ratio < 1.03 for row in one.rows)
    slower = [
        msgspec.structs.replace(row, median_us=row.median_us * 1.07) if row.provider == "triton" else row
        for row in after.outcomes
        if row.median_us is not None
    ]
    late = drift(own, matrix, release=before, head=type(after)(outcomes=tuple(slower)), policy=Policy())
    assert late.state == "drifted"
    assert f"{late.n} rows together take" in sentences(late, "r")[0]


@pytest.mark.parametrize("machine", [0.8, 1.0, 1.25])
def test_the_move_of_the_controls_is_taken_out(machine: float) -> None:
    one = found(night(1), night(2, every=machine, factors=dict.fromkeys(range(8), 1.07)))
    assert one.state == "drifted" and one.ratio == pytest.approx(1.07, rel=0.005)
    assert one.controls == pytest.approx(machine, rel=0.005)
    assert found(night(1), night(2, every=machine)).state == "ok"


def test_another_driver_is_told_by_the_controls_and_another_library_makes_a_control_none() -> None:
    assert found(night(1), night(2, driver_version="7.0", rocm_version="8.0")).state == "ok"
    renewed = found(night(1), night(2, torch_version="3.0", triton_version="4.0"))
    assert renewed.state == "ok" and renewed.controls is not None, "aiter is still the one it was"
    nobody = {"torch_version": "3.0", "triton_version": "4.0", "rivals": {"triton": 1.1, "pytorch": 2.0}}
    one = found(night(1), night(2, **nobody))
    assert one.state == "unjudged" and "untouched baselines" in one.why


def test_a_mean_that_one_wild_row_makes_is_no_drift_of_the_op() -> None:
    one = found(night(1), night(2, factors={7: 1.6}))
    assert one.ratio is not None and one.ratio > 1.05
    assert one.low is not None and one.low < 1, "seven rows stayed where they were"
    (said,) = sentences(one, "r")
    assert "1 of 8 rows beyond their limit" in said


def test_faster_is_no_drift_and_hides_no_slow_row() -> None:
    assert found(night(1), night(2, factors=dict.fromkeys(range(8), 0.5))).state == "ok"
    mixed = found(night(1), night(2, factors={**dict.fromkeys(range(7), 0.5), 7: 1.2}))
    assert mixed.state == "drifted" and mixed.rows[0].shape_id == LEDGER.shapes[7].shape_id


def test_few_rows_are_judged_one_by_one() -> None:
    few = build.ledger(3)
    slow = dict.fromkeys(range(3), 1.055)
    one = drift(
        few, build.matrix(), release=build.run(few, seed=1, session_id="a"),
        head=build.run(few, seed=2, session_id="b", factors=slow), policy=Policy(),
    )  # fmt: skip
    assert one.state == "ok" and one.low is None, "the policy asks for four rows"


def test_a_row_measured_twice_is_left_out() -> None:
    head = night(2)
    double = type(head)(outcomes=(*head.outcomes, head.outcomes[0]))
    assert found(night(1), double).n == 7


@pytest.mark.parametrize(("rows", "tested"), [(3, False), (4, True), (5, True)])
def test_so_few_rows_are_not_judged_together(rows: int, tested: bool) -> None:
    assert Policy().geomean.min_rows == 4
    few = Ledger(shapes=LEDGER.shapes[:rows])
    one = drift(few, build.matrix(), release=night(1), head=night(2), policy=Policy())
    assert one.n == rows and (one.low is not None) is tested
