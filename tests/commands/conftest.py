"""Desks for baselines and histories; the ledgers of timed runs and one finished run, made once for all modules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gate.cli import run
from tests.commands import timed_rig as rig
from tests.commands.baseline_desk import Desk

if TYPE_CHECKING:
    from tests.commands.history_keeper import Keeper


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capsys)


@pytest.fixture
def keeper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Keeper:
    from tests.commands.history_keeper import Keeper

    return Keeper(tmp_path, capsys)


@pytest.fixture(scope="session")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ops; the second half of the first is marked so that head's factor does not reach it."""
    rows = {
        "rmsnorm": [*rig.shapes("rmsnorm", 2), *rig.shapes("rmsnorm", 2, steady=1)],
        "softmax": rig.shapes("softmax", 2, steady=1),
    }
    return rig.write_ledgers(tmp_path_factory.mktemp("timed") / "ledgers", rows)


@pytest.fixture(scope="session")
def slow(ledgers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in which head is 4% slower on two shapes of six."""
    out = tmp_path_factory.mktemp("slow") / "out"
    code, stderr = rig.call(rig.arguments(ledgers, out, head=rig.SLOW))
    assert code == 1, stderr
    return out


@pytest.fixture(scope="session")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ledgers, a plan for two, both shards run with head 4% slower, and the whole run beside them."""
    root = tmp_path_factory.mktemp("shards")
    rig.write_ledgers(root / "ledgers", {op: rig.shapes(op, count) for op, count in rig.SHARDED.items()})
    plan = ["shard", "plan", "--ledgers", str(root / "ledgers"), "--op-from", f"{rig.KERNELS}:OP", "--runners", "2"]
    assert run([*plan, "--out", str(root / "plan.json")]) == 0
    slow = {"head": rig.SLOW}
    for number in (1, 2):
        more = ("--shard", f"{number}/2", "--plan", str(root / "plan.json"))
        code, stderr = rig.call(rig.arguments(root / "ledgers", root / str(number), *more, **slow))
        assert code == 1, stderr
    code, stderr = rig.call(rig.arguments(root / "ledgers", root / "whole", **slow))
    assert code == 1, stderr
    return root
