"""The options of the simulated GPU: one that is wrong is named before anything begins, with exit code 64."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.cli import run
from gate.replay.device import DeviceError, open_device
from gate.replay.sim_options import KINDS, parse
from tests.commands import timed_rig as rig

WRONG = {
    "bogus=1": f"bogus=1: there is no such option; there are {', '.join(KINDS)}",
    "memory=64,bogus": f"bogus: there is no such option; there are {', '.join(KINDS)}",
    "memory=abc": "memory=abc is not a number",
    "memory=": "memory= is not a number",
    "gone": "gone is not gone=VALUE",
    "seed=1.5": "seed=1.5 is not a whole number",
    "noise=nan": "noise=nan is not between 0 and 1e+09",
    "noise=-0.1": "noise=-0.1 is not between 0 and 1e+09",
    "floor=inf": "floor=inf is not between 0 and 1e+09",
    "drift=-1": "drift=-1 is not between -0.99 and 1e+09",
    f"seed={'9' * 400}": f"seed={'9' * 55} is not between 0 and 1e+09",
    f"seed={'9' * 9000}": f"seed={'9' * 55} is not a whole number",
}


@pytest.mark.parametrize("verb", ["run", "replay", "correctness"])
@pytest.mark.parametrize(("text", "why"), WRONG.items(), ids=range(len(WRONG)))
def test_a_wrong_option_is_one_line(
    tmp_path: Path, ledgers: Path, capsys: pytest.CaptureFixture[str], verb: str, text: str, why: str
) -> None:
    out = tmp_path / "out"
    argv = rig.arguments(ledgers, out, sim=text)
    if verb != "run":
        argv = [verb, "--op", "rmsnorm", "--ledgers", str(ledgers), "--out", str(out), "--simulate", text]
    assert run(argv) == 64
    told = capsys.readouterr().err
    assert told == f"gate {verb}: Invalid value for '--simulate': {why}; see 'gate {verb} --help'\n"
    assert not out.exists()


@pytest.mark.parametrize("verb", ["bisect", "profile"])
def test_verbs_with_a_gpu_of_their_own_say_the_same(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--simulate", "memory=abc"]) == 64
    assert "Invalid value for '--simulate': memory=abc is not a number" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "why"), WRONG.items(), ids=range(len(WRONG)))
def test_a_worker_refuses_it_too(text: str, why: str) -> None:
    with pytest.raises(DeviceError) as refused:
        open_device(f"sim:{text}")
    assert str(refused.value) == f"the simulated GPU: {why}"


def test_options_that_are_right_are_taken() -> None:
    found = parse("memory=64,noise=30,drift=-0.5,lends=-1,gone=a=b,seed=7,")
    assert (found.memory, found.noise, found.drift, found.lends, found.gone, found.seed) == (64, 30, -0.5, -1, "a=b", 7)
    assert parse("") == parse("floor=4,l2=1")
