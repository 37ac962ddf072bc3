"""What the documents say that stored times can show is what the policy's defaults say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gate.model.policy import Policy
from gate.model.policy_noise import Floor

ROOT = Path(__file__).resolve().parents[1]
NOISE = Policy().noise
METHODS = [name for name in NOISE.__struct_fields__ if isinstance(getattr(NOISE, name), Floor)]


def limits(method: str) -> list[float]:
    """The slowdowns that count, in percent, shortest kernels first."""
    return [100 * limit for limit in getattr(NOISE, method).limit]


@pytest.mark.parametrize("method", METHODS)
def test_the_table_has_every_method_with_its_limits(method: str) -> None:
    text = (ROOT / "docs" / "without-a-gpu.md").read_text("utf-8")
    (line,) = re.findall(rf"^\| `{method}` \|(.*)\|$", text, re.M)
    assert [float(cell.strip().rstrip("%")) for cell in line.split("|")] == pytest.approx(limits(method))


def test_the_table_names_the_strata() -> None:
    text = (ROOT / "docs" / "without-a-gpu.md").read_text("utf-8")
    (line,) = re.findall(r"^\| `timing_method` \|(.*)\| longer \|$", text, re.M)
    assert [float(found) for found in re.findall(r"up to ([\d.]+) µs", line)] == list(NOISE.strata_us)


def test_the_readme_names_the_limits_of_one_launch_and_of_the_slope() -> None:
    (said,) = re.findall(r"Stored times show less: (.*?)\)\)\.", (ROOT / "README.md").read_text("utf-8"), re.S)
    told = [float(number) for number in re.findall(r"above (\d+)|to (\d+)%", said) for number in number if number]
    launch, slope = limits("cudagraph"), limits("graph_slope")
    assert told == pytest.approx([min(launch), max(launch), min(slope), max(slope)])
