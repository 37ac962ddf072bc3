"""Shards of equal cost, and the process pairs of one session: pure arithmetic over jobs and records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.replay import shards
from gate.replay.blocks import BASE, CONTROL, HEAD, Arm
from gate.replay.job import Job, Target, even, spread
from gate.replay.journal import merged
from gate.replay.op import Case


def job(number: int, *, op: str = "vec_add", arms: int = 3, **args: int) -> Job:
    sides = (HEAD, BASE, *(CONTROL,) * (arms - 2))
    targets = tuple(Target(arm=Arm(side, f"p{place}"), entrypoint="x:y") for place, side in enumerate(sides))
    case = Case(shape_id=f"sha1:{number:016x}", op_type=op, dtype="f32", args=args or {"N": 4096}, layout={})
    return Job(case=case, targets=targets)


def costs(seconds: list[float]) -> shards.Costs:
    return shards.Costs(seconds={f"s{n}": value for n, value in enumerate(seconds)}, measured=0, wall_share=0.5)


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=60), st.integers(1, 9))
def test_every_shape_is_in_one_shard_and_no_shard_is_far_from_the_best(seconds: list[float], runners: int) -> None:
    found = costs(seconds)
    parts = shards.partition(found, runners)
    assert len(parts) == runners
    assert sorted(shape for part in parts for shape in part) == sorted(found.seconds)
    assert all(part == sorted(part, key=list(found.seconds).index) for part in parts)
    worst = max(sum(found.seconds[shape] for shape in part) for part in parts)
    even_s, longest_s = sum(seconds) / runners, max(seconds)
    # Graham's bound for any list schedule (1966).
    assert worst <= (even_s + longest_s * (1 - 1 / runners)) * (1 + 1e-9)


def test_a_bigger_shape_and_more_arms_cost_more() -> None:
    small, big, wide = job(1), job(2, N=1 << 28), job(3, arms=5)
    assert shards.modelled_s(small) < shards.modelled_s(wide) and shards.modelled_s(small) < shards.modelled_s(big)
    assert shards.modelled_s(job(4, op="nobody")) > 0


def test_measured_costs_replace_the_model_and_scale_it() -> None:
    jobs = [job(1), job(2), job(3, N=1 << 28)]
    recorded = {jobs[0].case.shape_id: 10 * shards.modelled_s(jobs[0]) / 3}
    found = shards.costs_of(jobs, recorded)
    assert found.measured == 1
    for one in jobs:
        assert found.seconds[one.case.shape_id] == pytest.approx(10 * shards.modelled_s(one))


def test_the_seconds_of_all_processes_of_a_shape_are_summed_for_one_arm() -> None:
    lines = [
        {"shape_id": "a", "arms": {"head": 0, "base": 0, "control": 0}, "spent_s": {"visit": 1.0, "open": 2.0}},
        {"shape_id": "a", "arms": {"head": 0, "base": 0}, "spent_s": {"visit": 0.5}},
    ]
    assert shards.recorded_s(lines) == {"a": 1.25}


def test_more_runners_take_less_time_and_never_less_than_the_start() -> None:
    told = shards.estimates(costs([30.0] * 64))
    assert told[1] > told[2] > told[4] > told[8] > shards.START_S / 60


@given(st.integers(1, 100), st.integers(1, 40))
def test_blocks_are_dealt_evenly_to_processes(blocks: int, processes: int) -> None:
    sizes = even(blocks, processes)
    assert sum(sizes) == blocks and max(sizes) - min(sizes) <= 1 and len(sizes) == min(blocks, processes)


def test_each_process_measures_its_own_blocks_of_every_shape() -> None:
    jobs = [job(1), job(2)]
    parts = spread(jobs, first=8, sizes=[4, 2, 2], process=3)
    assert [(part.process, part.blocks) for part in parts if part.case is jobs[0].case] == [
        (3, (8, 12)),
        (4, (12, 14)),
        (5, (14, 16)),
    ]
    assert len(parts) == 6


def record(process: int, status: str = "ok", **more: Any) -> dict[str, Any]:
    arm = {
        "status": status,
        "reason": None if status == "ok" else "it broke",
        "visits": [[float(process)]],
        "processes": [process],
        "notes": [f"n{process}"],
        "gpu_us": 1.0,
    }
    base = {"shape_id": "a", "process": process, "arms": {"head/p": arm}, "environments": {"head": {"gpu": "x"}}}
    return {**base, "cold_proven": True, "raw": [process], "spent_s": {}, **more}


def test_the_records_of_a_shape_become_one_in_the_order_of_its_processes() -> None:
    (one,) = merged([record(2), record(0), record(1)]).values()
    arm = one["arms"]["head/p"]
    assert arm["visits"] == [[0.0], [1.0], [2.0]] and arm["processes"] == [0, 1, 2]
    assert arm["notes"] == ["n0", "n1", "n2"] and arm["gpu_us"] == 3.0 and one["raw"] == [0, 1, 2]


def test_what_every_process_says_is_said_once() -> None:
    records = [record(number) for number in range(3)]
    for each in records:
        each["arms"]["head/p"]["notes"].append("memory of its own")
    (one,) = merged(records).values()
    assert one["arms"]["head/p"]["notes"] == ["n0", "memory of its own", "n1", "n2"]


def test_an_arm_that_failed_in_one_process_has_failed() -> None:
    (one,) = merged([record(0), record(1, status="failed")]).values()
    assert one["arms"]["head/p"]["status"] == "failed" and one["arms"]["head/p"]["reason"] == "it broke"


def test_times_are_cold_only_where_every_process_proved_it() -> None:
    (one,) = merged([record(0), record(1, cold_proven=False)]).values()
    assert one["cold_proven"] is False
