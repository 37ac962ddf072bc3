"""Which GPUs a run takes, what sensors say, and that two runs cannot hold one GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gate.model.problem import UnusableInput
from gate.replay import machine, sensors
from gate.replay.arms import ArmSpec
from gate.replay.looks import clearly_clean, throttled


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpu_count", lambda: 4)


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("wanted", "environment", "found"),
    [
        ("all", {}, ["0", "1", "2", "3"]),
        ("2", {}, ["0", "1"]),
        ("1,3", {}, ["1", "3"]),
        ("3,1,3", {}, ["3", "1"]),
        ("all", {"HIP_VISIBLE_DEVICES": "5,7"}, ["5", "7"]),
        ("1", {"CUDA_VISIBLE_DEVICES": "GPU-aa,GPU-bb"}, ["GPU-aa"]),
    ],
)
def test_the_gpus_of_a_run(wanted: str, environment: dict[str, str], found: list[str]) -> None:
    assert machine.visible_gpus(wanted, environment) == found


@pytest.mark.usefixtures("four_gpus")
def test_more_gpus_than_there_are() -> None:
    with pytest.raises(UnusableInput, match="asks for more than the 4 GPUs there are"):
        machine.visible_gpus("5", {})
    with pytest.raises(UnusableInput, match="asks for more than the 1 GPU there is"):
        machine.visible_gpus("5", {"HIP_VISIBLE_DEVICES": "7"})


def test_no_gpu_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpu_count", lambda: 0)
    with pytest.raises(UnusableInput, match="no GPU"):
        machine.visible_gpus("all", {})


def test_a_gpu_is_held_by_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.tempfile, "gettempdir", lambda: str(tmp_path))
    first = machine.lock_gpu("0")
    other = machine.lock_gpu("1")
    with pytest.raises(UnusableInput, match="GPU 0 is being measured by another run"):
        machine.lock_gpu("0")
    os.close(first)
    os.close(machine.lock_gpu("0"))
    os.close(other)


def test_a_lock_that_another_user_made_can_still_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.tempfile, "gettempdir", lambda: str(tmp_path))
    opened = os.open

    def guarded(path: Path, flags: int, mode: int = 0o777) -> int:
        # As the kernel does in a sticky folder with fs.protected_regular set.
        if path.exists() and flags & (os.O_RDWR | os.O_CREAT):
            raise PermissionError
        return opened(path, flags, mode)

    os.close(machine.lock_gpu("0"))
    monkeypatch.setattr(machine.os, "open", guarded)
    held = machine.lock_gpu("0")
    with pytest.raises(UnusableInput, match="GPU 0 is being measured by another run"):
        machine.lock_gpu("0")
    os.close(held)


def card(folder: Path, number: int, vendor: str) -> Path:
    device = folder / f"card{number}" / "device"
    (device / "hwmon" / "hwmon3").mkdir(parents=True)
    (device / "vendor").write_text(vendor + "\n")
    (device / "pp_dpm_sclk").write_text("0: 132Mhz\n1: 2400Mhz *\n")
    (device / "hwmon" / "hwmon3" / "power1_average").write_text("750000000\n")
    (device / "hwmon" / "hwmon3" / "temp1_input").write_text("61000\n")
    return device


def test_amd_sensors_are_read_from_sysfs(tmp_path: Path) -> None:
    card(tmp_path, 0, "0x10de")
    amd = card(tmp_path, 1, "0x1002")
    assert sensors.amd_card(0, tmp_path) == amd and sensors.amd_card(1, tmp_path) is None
    reading = sensors.read_amd(amd)
    assert (reading.clock_mhz, reading.power_w, reading.temperature_c) == (2400.0, 750.0, 61.0)
    # What the machine does not say is absent, not zero.
    assert "memory_mhz" not in reading.as_dict() and "throttle" not in reading.as_dict()


def test_cards_are_counted_by_number_and_not_by_name(tmp_path: Path) -> None:
    cards = [card(tmp_path, number, "0x1002") for number in (10, 9, 1)]
    assert [sensors.amd_card(index, tmp_path) for index in range(3)] == cards[::-1]


def test_a_gpu_without_an_index_is_not_read_as_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "amd_card", lambda index: Path(f"/card{index}"))
    assert sensors.open_sensor("GPU-aa", amd=True)() == sensors.Reading()
    assert sensors.open_sensor("0", amd=True)().source == "sysfs"


@pytest.mark.parametrize(
    ("environment", "gpus", "variables", "names"),
    [
        ({}, ["0", "1", "2", "3"], ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"), ["0", "1", "2", "3"]),
        ({"ROCR_VISIBLE_DEVICES": "4,6"}, ["4", "6"], ("ROCR_VISIBLE_DEVICES",), ["4", "6"]),
        (
            {"ROCR_VISIBLE_DEVICES": "4,6", "HIP_VISIBLE_DEVICES": "1"},
            ["1"],
            ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
            ["6"],
        ),
    ],
)
@pytest.mark.usefixtures("four_gpus")
def test_a_gpu_is_picked_by_the_variable_that_named_it(
    environment: dict[str, str], gpus: list[str], variables: tuple[str, ...], names: list[str]
) -> None:
    """HIP counts within what ROCR leaves: an entry of one in the other is another GPU, or none."""
    assert machine.visible_gpus("all", environment) == gpus
    for gpu, name in zip(gpus, names, strict=True):
        made = ArmSpec().environment(environment, gpu=gpu)
        assert made == {**environment, **dict.fromkeys(variables, gpu)}
        assert machine.physical(gpu, environment) == name


def test_a_slowdown_in_or_before_a_block_is_told() -> None:
    calm, hot = sensors.Reading(throttle=0), sensors.Reading(throttle=0x40)
    assert throttled(calm, calm) is None and throttled(sensors.Reading(), sensors.Reading()) is None
    assert "0x40" in str(throttled(calm, hot)) and "was slowed down" in str(throttled(hot, calm))


@pytest.mark.parametrize(
    ("ratios", "clean"),
    [
        ([1.0, 1.001, 0.999, 1.0], True),
        ([0.9, 0.91, 0.9, 0.89], True),
        ([1.02, 1.021, 1.02, 1.019], False),
        ([1.0, 1.2, 0.9, 1.0], False),
        ([1.0], False),
    ],
)
def test_when_more_blocks_are_not_needed(ratios: list[float], clean: bool) -> None:
    head = [[10.0 * ratio, 10.0 * ratio] for ratio in ratios]
    assert clearly_clean(head, [[10.0, 10.0]] * len(ratios)) is clean
