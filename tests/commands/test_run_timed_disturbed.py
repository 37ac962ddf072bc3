"""A timed run among kills, a full disk, a clock that jumps, a GPU that disappears and a second run: never green."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gate import store
from tests.bench.run_kills import trial
from tests.commands import timed_rig as rig
from tests.factory import decision_in


def test_kills_change_nothing(tmp_path: Path) -> None:
    found = trial(tmp_path, kills=6, rng=random.Random(1))
    assert sum(found["kills"].values()) > 0
    assert found["lost"] == 0 and found["differ"] == [] and found["early"] == 0


def test_a_gpu_that_disappears_ends_the_run_and_resume_completes_it(tmp_path: Path) -> None:
    rows = [*rig.shapes("rmsnorm", 2), *rig.shapes("rmsnorm", 1, breaks=1), *rig.shapes("rmsnorm", 1, last=1)]
    root = rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rows}, candidate="vanishing")
    sim = f"{rig.SIM},gone={tmp_path}/gone"
    argv = rig.arguments(root, tmp_path / "out", sim=sim)
    code, stderr = rig.call(argv, env={"SIM_MARKS": str(tmp_path)})
    assert code == 2, stderr
    decision = decision_in(tmp_path / "out")
    assert decision["gate"] == "no_verdict" and "the GPU no longer answers" in decision["summary"]
    assert decision["counts"]["unchanged"] == 2 and decision["counts"]["newly_failed"] == 0
    code, stderr = rig.call([*argv, "--resume"], env={"SIM_MARKS": str(tmp_path)})
    assert code == 2 and "has fallen off the bus" in stderr
    (tmp_path / "gone").unlink()
    code, stderr = rig.call([*argv, "--resume"], env={"SIM_MARKS": str(tmp_path)})
    assert code == 0, stderr
    assert decision_in(tmp_path / "out")["counts"]["unchanged"] == 4


CLOCK = """
import random, sys, time
rng, real = random.Random(3), time.time
time.time = lambda: real() + rng.choice((-1e9, -3600.0, 0.0, 3600.0, 1e9))
from gate.cli import run
sys.exit(run(sys.argv[1:]))
"""


def test_a_clock_that_jumps_changes_nothing(ledgers: Path, slow: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", CLOCK, *rig.arguments(ledgers, tmp_path, head=rig.SLOW)]
    done = subprocess.run(argv, cwd=rig.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()


FULL = """
import errno, os, random, sys
seed, chance, argv = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
rng, real_write, armed = random.Random(seed), os.write, []
from collections.abc import Sequence
from pathlib import Path
real_replace = Path.replace
def full():
    if rng.random() < chance:
        raise OSError(errno.ENOSPC, "No space left on device")
def write(handle, data):
    if os.path.realpath(f"/proc/self/fd/{handle}").endswith(".jsonl"):
        full()
    return real_write(handle, data)
def replace(self, target):
    full()
    return real_replace(self, target)
os.write, Path.replace = write, replace
from gate.cli import run
sys.exit(run(argv))
"""


@pytest.mark.parametrize("seed", range(2))
def test_a_disk_that_fills_up_anywhere_is_never_green_and_loses_nothing(
    ledgers: Path, slow: Path, tmp_path: Path, seed: int
) -> None:
    argv, codes = rig.arguments(ledgers, tmp_path, head=rig.SLOW), []
    for attempt, chance in enumerate((0.08, 0.04, 0.0)):
        resume = ["--resume"] if attempt else []
        command = [sys.executable, "-c", FULL, str(10 * seed + attempt), str(chance), *argv, *resume]
        done = subprocess.run(command, cwd=rig.ROOT, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        codes.append(done.returncode)
        assert codes[-1] == 1 or (codes[-1] == 2 and "No space left on device" in done.stderr), done.stderr
        if codes[-1] == 2 and (tmp_path / "status.json").is_file():
            assert json.loads((tmp_path / "status.json").read_text())["state"] == "error"
    assert codes[0] == 2 and codes[-1] == 1, done.stderr
    assert (tmp_path / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()


def test_output_that_cannot_be_written_is_one_line(ledgers: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, stderr = rig.call(rig.arguments(ledgers, tmp_path / "file" / "out"))
    assert code == 2 and len(stderr.splitlines()) == 1 and "file" in stderr


def test_two_runs_at_once_in_one_folder(ledgers: Path, tmp_path: Path) -> None:
    with store.output_lock(tmp_path):
        code, stderr = rig.call(rig.arguments(ledgers, tmp_path))
    assert code == 2 and len(stderr.splitlines()) == 1 and "another gate writes here" in stderr
