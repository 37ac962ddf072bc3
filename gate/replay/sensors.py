"""What the machine says of a GPU's clocks, power, temperature and throttling; every reading may be absent."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Of NVML's clock event reasons: software and hardware thermal slowdown, hardware slowdown, power brake. The plain
# power cap (0x4) is left out: dense matrix work runs at it all the time.
NVIDIA_SLOWDOWN = 0x08 | 0x20 | 0x40 | 0x80
TIMEOUT_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at the GPU. None means that the machine does not say. `throttle` is a mask of active slowdowns."""

    source: str = "none"
    clock_mhz: float | None = None
    memory_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The readings that there are."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value is not None}


Sensor = Callable[[], Reading]


def open_sensor(gpu: str, *, amd: bool) -> Sensor:
    """A function that reads a GPU by its index or UUID: through NVML or sysfs when they are there (quick), else absent.

    Another GPU's clocks would be worse than none: an AMD GPU is found by its index alone.
    """
    if amd:
        card = amd_card(int(gpu)) if gpu.isdigit() else None
        return Reading if card is None else lambda: read_amd(card)
    return _nvml_sensor(gpu) or Reading


def _nvml_sensor(gpu: str) -> Sensor | None:
    try:
        import pynvml  # type: ignore[import-not-found]
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(int(gpu)) if gpu.isdigit() else pynvml.nvmlDeviceGetHandleByUUID(gpu)
    except pynvml.NVMLError:
        return None

    def ask(question: Callable[..., Any], *args: Any) -> float | None:
        try:
            return float(question(handle, *args))
        except pynvml.NVMLError:
            return None

    # NVML renamed it; older bindings have only the second name.
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    reasons = next(getattr(pynvml, name) for name in names if hasattr(pynvml, name))

    def read() -> Reading:
        power, throttle = ask(pynvml.nvmlDeviceGetPowerUsage), ask(reasons)
        return Reading(
            source="nvml",
            clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
            memory_mhz=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
            power_w=None if power is None else power / 1e3,
            temperature_c=ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
            throttle=None if throttle is None else int(throttle) & NVIDIA_SLOWDOWN,
        )

    return read


def amd_card(index: int, root: Path = Path("/sys/class/drm")) -> Path | None:
    """The sysfs folder of the index-th AMD GPU."""
    found = (
        path.parent
        for path in root.glob("card*/device/pp_dpm_sclk")
        if (path.parent / "vendor").read_text(encoding="ascii").strip() == "0x1002"
    )
    # By number: as text, card10 would come before card2.
    cards = sorted(found, key=lambda folder: int(folder.parent.name.removeprefix("card")))
    return cards[index] if index < len(cards) else None


def read_amd(card: Path) -> Reading:
    """Reads the amdgpu driver's files under `card`."""
    hwmon = next(iter(sorted(card.glob("hwmon/hwmon*"))), card)
    power = _number(hwmon / "power1_average")
    if power is None:
        power = _number(hwmon / "power1_input")
    temperature = _number(hwmon / "temp1_input")
    return Reading(
        source="sysfs",
        clock_mhz=_active_mhz(card / "pp_dpm_sclk"),
        memory_mhz=_active_mhz(card / "pp_dpm_mclk"),
        power_w=None if power is None else power / 1e6,
        temperature_c=None if temperature is None else temperature / 1e3,
    )


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _active_mhz(path: Path) -> float | None:
    """The starred level of a pp_dpm file, such as `1: 2100Mhz *`."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.rstrip().endswith("*"):
            digits = "".join(char for char in line.partition(":")[2] if char.isdigit())
            return float(digits) if digits else None
    return None


def query_tool(*command: str) -> str | None:
    """What a vendor's tool prints, or None where it is not installed or does not answer in time."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
