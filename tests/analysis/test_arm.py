"""When an ok row's time counts for nothing, and the reason that is given."""

from __future__ import annotations

from typing import Any

import pytest

from gate.analysis.arm import of_outcome
from tests.analysis import build

SHAPE = build.shape(1)
BLOCKS = ((10.0, 10.2), (9.9, 10.1), (10.0, 10.3), (10.1, 10.0))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"repeat_iters": 0}, "not_repeated"),
        ({"repeat_iters": -3, "blocks_us": BLOCKS}, "not_repeated"),
        ({"repeat_iters": 0, "p10_us": 9.0, "p90_us": 11.0}, "not_repeated"),
        ({"median_us": 20.0, "blocks_us": BLOCKS}, "blocks_disagree"),
        ({"median_us": 8.0, "blocks_us": BLOCKS}, "blocks_disagree"),
        ({"median_us": 200.0, "blocks_us": BLOCKS}, "unit_mismatch"),
    ],
)
def test_a_time_that_is_not_believed(fields: dict[str, Any], reason: str) -> None:
    time = fields.pop("median_us", 10.0)
    arm = of_outcome(build.outcome(SHAPE, "flydsl", time, **fields))
    assert (arm.state, arm.reasons, arm.time_us) == ("unusable", (reason,), None)
    assert arm.detail


@pytest.mark.parametrize(
    "fields",
    [{"repeat_iters": 1}, {"repeat_iters": None}, {"blocks_us": BLOCKS}, {"median_us": 10.9, "blocks_us": BLOCKS}],
)
def test_a_time_that_is_believed(fields: dict[str, Any]) -> None:
    time = fields.pop("median_us", 10.0)
    assert of_outcome(build.outcome(SHAPE, "flydsl", time, **fields)).time_us == time


@pytest.mark.parametrize("side", ["base", "head"])
def test_too_few_blocks_are_told_whichever_side_has_them(side: str) -> None:
    ledger = build.ledger()
    runs = {"base": build.run(ledger, seed=1), "head": build.run(ledger, seed=2)}
    few = next(row for row in runs[side].outcomes if row.shape_id == ledger.shapes[3].shape_id)
    assert few.blocks_us is not None
    runs[side] = build.edit(runs[side], 3, ledger, blocks_us=few.blocks_us[:3])
    row = build.row(build.decide(ledger, runs["base"], runs["head"]), 3)
    assert "too_few_blocks" in row.reasons


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"correctness_error": "3 elements differ"}, "3 elements differ"),
        ({"skip_reason": "no such kernel"}, "no such kernel"),
        ({"correctness_error": "3 elements differ", "skip_reason": "no such kernel"}, "3 elements differ"),
        ({}, ""),
    ],
)
def test_a_row_without_a_time_says_why(fields: dict[str, Any], told: str) -> None:
    arm = of_outcome(build.outcome(SHAPE, "flydsl", None, benchmark_status="failed", **fields))
    assert (arm.detail, arm.time_us) == (told, None)
