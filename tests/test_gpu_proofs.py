"""The runner of the proofs that need a GPU: what it runs exists, time limits hold, nothing is left out unsaid."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gate import store
from gate.cli import VERBS
from gate.resources import frozen_ledgers_dir
from tests.bench import full_gate
from tests.bench.gpu_proofs import PROFILED, Part, everything, parts


def test_what_it_runs_exists() -> None:
    named = parts("0" * 40)
    assert len({part.name for part in named}) == len(named)
    for part in named:
        module = part.command[1]
        assert importlib.util.find_spec(module) is not None, part.name
        if module == "gate":
            assert part.command[2] in VERBS
        for option in ("--op", "--ops"):
            if option in part.command:
                ops = part.command[part.command.index(option) + 1].split(",")
                assert all((frozen_ledgers_dir() / op).is_dir() for op in ops), part.name


def test_the_whole_gates_are_called_as_they_can_be_and_end_before_their_time() -> None:
    named = [part for part in parts("0" * 40) if part.command[1] == full_gate.__name__]
    assert {part.name for part in named} >= {"gate_800", "gate_seeded", "gate_real"}
    for part in named:
        options = full_gate.arguments(part.command[2:])
        assert options.commit == "0" * 40
        assert options.seconds + full_gate.OVERRUN_S < part.seconds


def test_the_profiled_shape_is_frozen() -> None:
    shapes = store.read_ledger(frozen_ledgers_dir() / "rmsnorm" / store.LEDGER_FILE).shapes
    assert PROFILED[3] in {shape.shape_id for shape in shapes}


def test_parts_share_the_gpus_and_keep_to_their_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def python(name: str, code: str, *, seconds: int = 20, alone: bool = False) -> Part:
        return Part(name=name, seconds=seconds, command=("-c", code), alone=alone)

    chosen = [
        python("first", "import os; print('gpu', os.environ.get('CUDA_VISIBLE_DEVICES'))"),
        python("fails", "raise SystemExit(3)"),
        python("hangs", "import time; print('kept', flush=True); time.sleep(60)", seconds=1),
        python("long", "pass", seconds=10_000),
        python("folder", "import sys; print(sys.argv[1])"),
        python("both", "print('both')", alone=True),
    ]
    chosen[4] = Part(name="folder", seconds=20, command=(*chosen[4].command, "{out}/x-{seconds}-{op}"))
    done = everything(chosen, out=tmp_path, gpus=["0", "1"], seconds=120)
    codes = {name: code for name, code, _ in done.done}
    assert codes == {"first": 0, "fails": 3, "hangs": -1, "folder": 0, "both": 0}
    assert [part.name for part in done.waiting] == ["long"]
    assert done.done[-1][0] == "both"
    assert "gpu 0" in (tmp_path / "first.txt").read_text() or "gpu 1" in (tmp_path / "first.txt").read_text()
    assert "kept" in (tmp_path / "hangs.txt").read_text()
    assert f"{tmp_path}/folder/x-5-{{op}}" in (tmp_path / "folder.txt").read_text()
    assert "time is up" in capsys.readouterr().out
