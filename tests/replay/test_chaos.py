"""Workers that fail at random, many at once: no arm ends for another's fault, nothing is lost, nothing stays behind."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gate.replay import runner
from gate.replay.device import CaptureFailed, DeviceError, OutOfMemory
from gate.replay.failures import failure
from tests.bench.replay_chaos import ARMS, Trial
from tests.replay.paper import Worker, World

HEAD, BASE, FIRST, SECOND = (str(arm) for arm in ARMS)


def trial(faults: dict[tuple[str, str], str], **more: Any) -> Trial:
    """A run of few shapes with these faults, by arm and command, in the first."""
    shortage = {name: more.pop(name) for name in ("room", "host", "early", "calm") if name in more}
    world = World({("s0", *place): kind for place, kind in faults.items()}, **shortage)
    settings = {
        "shapes": 3,
        "lanes": 4,
        "gpus": 1,
        "processes": 0,
        "timing": True,
        "hurry": 0.0,
        "most_breaks": 0,
        **more,
    }
    return Trial(rng=random.Random(1), world=world, **settings)


@pytest.mark.parametrize("seed", range(12))
def test_workers_that_fail_at_random(seed: int) -> None:
    assert Trial.drawn(seed).run() == []


def test_two_contexts_lost_at_once_are_the_fault_of_nobody_else() -> None:
    assert trial({(HEAD, "open"): "fatal", (SECOND, "open"): "fatal"}).run() == []


def test_a_baseline_that_loses_the_context_costs_not_the_next_one_in_its_process() -> None:
    assert trial({(FIRST, "open"): "fatal"}).run() == []


@pytest.mark.parametrize("kind", ["crash", "hang", "fatal"])
def test_two_workers_die_in_one_command(kind: str) -> None:
    assert trial({(HEAD, "check"): kind, (SECOND, "check"): "crash"}).run() == []


def test_a_twin_that_fails_before_the_other_has_a_ring() -> None:
    assert trial({(HEAD, "build"): "fail", (BASE, "build"): "other inputs"}).run() == []
    assert trial({(HEAD, "capture"): "fail", (BASE, "build"): "other inputs"}).run() == []


@pytest.mark.parametrize(
    "more", [{}, {"host": True}, {"host": True, "processes": 3}, {"gpus": 2}, {"processes": 3}, {"timing": False}]
)
def test_workers_that_find_no_room_beside_others_are_started_alone(more: dict[str, Any]) -> None:
    assert trial({(HEAD, "build"): "oom beside"}, shapes=6, room=5, **more).run() == []


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The lanes of every stage, in order."""
    seen: list[list[str]] = []
    run = runner._Shared.all_of

    def noted(shared: Any, places: Any) -> None:
        seen.append([f"gpu{machine.gpu}-lane{number}" for machine, number, _ in places])
        run(shared, places)

    monkeypatch.setattr(runner._Shared, "all_of", noted)
    return seen


@pytest.mark.parametrize(
    ("kind", "short", "last"),
    [
        ("oom beside many", ["s0"], [["gpu0-lane0"], []]),
        ("oom beside many", ["s0", "s1", "s2"], [["gpu0-lane0", "gpu0-lane1"], []]),
        ("oom beside", ["s0", "s1", "s2", "s3"], [["gpu0-lane0", "gpu0-lane1"], ["gpu0-lane0"]]),
    ],
)
def test_what_is_short_of_memory_beside_all_lanes_is_tried_beside_one_by_the_workers_that_are_there(
    kind: str, short: list[str], last: list[list[str]], stages: list[list[str]]
) -> None:
    run = trial({}, shapes=12)
    run.world.faults.update({(shape, FIRST, "build"): kind for shape in short})
    assert run.run() == []
    assert stages[1:] == last and len(stages[0]) == 4
    assert len(run.world.workers) == 4 * 3


def test_what_finds_no_memory_behind_other_shapes_is_tried_by_fresh_workers_at_last() -> None:
    run = trial({}, shapes=12)
    run.world.faults.update({(f"s{number}", FIRST, "build"): "oom behind others" for number in range(12)})
    assert run.run() == []


def test_workers_that_could_not_share_memory_beside_all_lanes_are_started_again(
    monkeypatch: pytest.MonkeyPatch, stages: list[list[str]]
) -> None:
    answer, shared = Worker.answer, set[bool]()

    def crowded(worker: Worker, do: str, message: dict[str, Any]) -> dict[str, Any]:
        if do == "build" and message["arm"] == HEAD and len(stages) > 1:
            shared.add(message["shared"])
        full = do == "lend" and len(stages) == 1
        return {"status": "oom", "reason": "full"} if full else answer(worker, do, message)

    monkeypatch.setattr(Worker, "answer", crowded)
    run = trial({}, shapes=12)
    run.world.faults.update({(f"s{number}", FIRST, "build"): "oom beside many" for number in range(12)})
    assert run.run() == []
    assert shared == {True}


def test_what_lanes_of_two_gpus_leave_is_dealt_to_both(stages: list[list[str]]) -> None:
    assert trial({}, shapes=8, lanes=2, gpus=2, early=1).run() == []
    assert sorted(stages[-1]) == ["gpu0-lane0", "gpu1-lane0"]


@pytest.mark.parametrize("kind", ["crash", "fatal"])
def test_a_worker_that_died_finds_no_room_to_come_back(kind: str) -> None:
    assert trial({(HEAD, "check"): kind, (BASE, "check"): kind}, early=9).run() == []


@pytest.mark.parametrize("calm", [0, 2])
@pytest.mark.parametrize("more", [{}, {"processes": 2}])
def test_a_canary_that_finds_no_room_beside_others_ends_its_lane_only(calm: int, more: dict[str, Any]) -> None:
    assert trial({}, shapes=6, calm=calm, **more).run() == []


@pytest.mark.parametrize("more", [{}, {"gpus": 2}, {"processes": 2}])
def test_what_was_postponed_when_the_time_was_over_is_measured_by_the_resumed_run(more: dict[str, Any]) -> None:
    run = trial({(HEAD, "build"): "oom beside"}, hurry=1.0, most_breaks=60, **more)
    assert run.run() == []
    assert run.breaks > 0


def test_a_worker_that_finds_no_room_alone_ends_the_run() -> None:
    assert trial({}, room=2).run() == ["it never ends"]


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemory("full"),
        MemoryError(),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported asynchronously"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        CaptureFailed("RuntimeError: full"),
    ],
)
def test_memory_that_is_short_is_told_from_other_failures(error: Exception) -> None:
    if isinstance(error, CaptureFailed):
        error.__cause__ = OutOfMemory("full")
    assert failure(error)["status"] == "oom"


def test_a_capture_that_fails_otherwise_says_so() -> None:
    told = failure(CaptureFailed("RuntimeError: stream is capturing"))
    assert told["status"] == "failed" and told["capture_error"] == "RuntimeError: stream is capturing"
    assert failure(DeviceError("out of memory after an illegal memory access"))["fatal"]


def test_idle_workers_die_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[bool] = []

    def close(worker: Worker) -> None:
        waited.append(any(other.alive for other in worker.world.workers))

    monkeypatch.setattr(Worker, "close", close)
    run = trial({}, shapes=8, lanes=1, gpus=4)
    assert run.run() == []
    assert waited and not any(waited)
