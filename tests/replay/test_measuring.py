"""Blocks that the machine disturbed are measured again, and what the sensors said is kept with each visit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gate.replay.arms import ArmSpec
from gate.replay.blocks import BASE, CONTROL, HEAD, Arm
from gate.replay.crew import Crew
from gate.replay.job import ArmResult, Job, Settings, Target
from gate.replay.measuring import MAX_BLOCK_REPEATS, Measuring
from gate.replay.op import Case
from gate.replay.sensors import Reading
from gate.replay.shape_run import ShapeRun
from gate.replay.talk import Talk
from gate.replay.token import Token

ARMS = (Arm(HEAD, "flydsl"), Arm(BASE, "flydsl"))
COOL, HOT = Reading(source="nvml", throttle=0), Reading(source="nvml", throttle=8)


class Steady(Crew):
    """Workers whose every visit reads the same; their labels are kept."""

    t_us = 10.0

    def __init__(self, settings: Settings, *, name: str, gpu: str | None) -> None:
        super().__init__(settings, name=name, gpu=gpu)
        self.labels: list[str] = []

    def ask(self, side: str, message: dict[str, Any]) -> dict[str, Any]:
        assert message["do"] == "visit" and side == message["arm"].split("/")[0]
        self.labels.append(message["label"].removeprefix("s:"))
        return {"status": "ok", "t_us": self.t_us, "full_us": [10.0], "single_us": [1.0], "gpu_us": 40_000.0}


def measured(
    folder: Path, readings: Iterable[Reading], *, arms_of: Sequence[Arm] = ARMS, heavy: bool = False
) -> tuple[Measuring, Iterator[Reading]]:
    """Four blocks under these readings in order, and the readings that are left."""
    left = iter(readings)
    case = Case(shape_id="s", op_type="gemm", dtype="bf16", args={}, layout={})
    job = Job(case=case, targets=tuple(Target(arm=arm, entrypoint="x:y") for arm in arms_of))
    arms = {arm.side: ArmSpec(path=()) for arm in arms_of}
    settings = Settings(session_id="t", seed=1, secret=1, arms=arms, folder=folder)
    results = {arm: ArmResult() for arm in arms_of}
    crew = Steady(settings, name="lane", gpu=None)
    talk = Talk(crew=crew, token=Token(), results=results, spent_s=defaultdict(float))
    sensor: Callable[[], Reading] = lambda: next(left)  # noqa: E731
    found = Measuring(settings=settings, job=job, talk=talk, sensor=sensor, raw=[], look=0, blocks=range(4))
    found.run(heavy=heavy)
    return found, left


def test_between_two_good_blocks_the_sensors_are_read_once(tmp_path: Path) -> None:
    found, left = measured(tmp_path, [COOL] * 6)
    assert len(list(left)) == 1
    assert {len(result.visits) for result in found.talk.results.values()} == {4}
    assert {visit["throttle"] for visit in found.raw} == {0}


def test_a_block_under_which_the_gpu_slowed_down_is_measured_again(tmp_path: Path) -> None:
    # Slowed down during the second block; cool again when its second try begins.
    found, left = measured(tmp_path, [COOL, COOL, HOT, COOL, COOL, COOL, COOL])
    assert list(left) == []
    tries = Counter((visit["block"], visit["repeat"]) for visit in found.raw)
    assert tries == {(0, 0): 4, (1, 0): 4, (1, 1): 4, (2, 0): 4, (3, 0): 4}
    for result in found.talk.results.values():
        assert [len(block) for block in result.visits] == [2] * 4 and result.notes == []


@pytest.mark.parametrize(("heavy", "t_us", "settles"), [(True, 500.0, 4), (True, 10.0, 0), (False, 500.0, 0)])
@pytest.mark.parametrize("control", [True, False])
def test_behind_a_control_a_kernel_that_loads_the_gpu_is_visited_once_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heavy: bool, t_us: float, settles: int, control: bool
) -> None:
    monkeypatch.setattr(Steady, "t_us", t_us)
    arms_of = [Arm(CONTROL, "pytorch")] * control + list(ARMS)
    found, _ = measured(tmp_path, [COOL] * 6, arms_of=arms_of, heavy=heavy)
    assert isinstance(found.talk.crew, Steady)
    labels = found.talk.crew.labels
    places = [place for place, label in enumerate(labels) if label.endswith(":settle")]
    assert len(places) == settles * control
    for place in places:
        before, settled, after = labels[place - 1 : place + 2]
        # It goes before a first visit, and is of the same arm.
        assert before.startswith("control/") and settled.rpartition(":")[0] == after.rpartition(":")[0]
    assert all(len(block) == 2 for result in found.talk.results.values() for block in result.visits)


def test_one_that_never_cools_is_kept_and_the_row_says_so(tmp_path: Path) -> None:
    tries = 1 + MAX_BLOCK_REPEATS
    found, _ = measured(tmp_path, [COOL] * 4 + [HOT] * 2 * tries)
    for result in found.talk.results.values():
        assert [len(block) for block in result.visits] == [2] * 4
        assert (
            len(result.notes) == 1
            and f"block 3: the GPU slowed itself down (event mask 0x8) in all {tries} tries" in result.notes[0]
        )


def test_a_ring_that_is_not_cold_for_want_of_memory_is_a_reason_to_measure_alone(tmp_path: Path) -> None:
    settings = Settings(session_id="t", seed=1, secret=1, arms={}, folder=tmp_path)
    case = Case(shape_id="s", op_type="gemm", dtype="bf16", args={}, layout={})
    run = ShapeRun(
        settings=settings,
        job=Job(case=case, targets=()),
        crew=Crew(settings, name="lane", gpu=None),
        token=Token(),
        sensor=Reading,
        results={arm: ArmResult(plan={"short": False}) for arm in ARMS},
    )
    assert not run.short_of_memory
    run.results[ARMS[1]].plan = {"short": True}
    assert run.short_of_memory
