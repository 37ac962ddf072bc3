"""The commands that a timed run prints: they work when pasted, and name what the matrices or the package do not say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from gate import store
from gate.commands.run import Limits
from gate.commands.timed_judge import given_of, pasteable
from gate.commands.timed_options import DEFAULTS
from gate.commands.timed_work import read_work
from gate.model.decision import Command
from gate.resources import frozen_ledgers_dir
from tests.commands import timed_rig as rig
from tests.factory import decision_in


def test_every_printed_replay_command_works_when_pasted(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    lines = [one["line"] for one in decision_in(slow)["commands"] if one["line"].startswith("gate replay ")]
    assert lines
    arm = f"path={rig.ROOT}"
    simulated = f"--simulate {rig.SIM} --budget-us 200"
    for line in lines:
        pasted = line.replace("gate ", f"{shlex.quote(sys.executable)} -m gate ", 1).replace(
            "--out ", f"{simulated} --out {tmp_path}/", 1
        )
        given_then = f'BASE="{arm}"; HEAD="{arm}{rig.SLOW}"; LEDGERS="{ledgers}"'
        script = f"{given_then}; PYTHONPATH={rig.ROOT} {pasted}"
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        out = tmp_path / str(re.search(r"--out (\S+)", line)[1])  # type: ignore[index]
        asked = re.findall(r"--shape (\S+)", line)
        rows = store.read_results(next((out / "head").glob(f"*/{store.RESULTS_FILE}"))).outcomes
        timed = {row.shape_id: row for row in rows if row.provider == "flydsl" and row.blocks_us}
        assert sorted(timed) == sorted(asked)
        blocks = int(re.search(r"--blocks (\d+)", line)[1])  # type: ignore[index]
        processes = int(re.search(r"--processes (\d+)", line)[1])  # type: ignore[index]
        for row in timed.values():
            assert row.blocks_us is not None and row.block_process is not None
            assert len(row.blocks_us) == blocks and len(set(row.block_process)) == processes


def test_a_printed_command_names_the_candidate_where_it_is_not_the_matrices_own(ledgers: Path) -> None:
    argv = {"candidate": "triton", "shard": None, "plan": None}
    work = read_work(ledgers, Limits(ops=(), shapes=()), {**DEFAULTS, **argv}, base="")
    line = 'gate replay --op rmsnorm --shape sha1:0 --blocks 16 --processes 8 --out confirm-rmsnorm --base "$BASE"'
    nothing = given_of(frozen_ledgers_dir(), op_from=None)
    (told,) = pasteable([Command(what="again", line=line)], work, given=nothing)
    assert told.line == line.replace(" --out ", " --candidate triton --out ")
    own = read_work(ledgers, Limits(ops=(), shapes=()), DEFAULTS, base="")
    assert pasteable([Command(what="again", line=line)], own, given=nothing)[0].line == line


def test_a_printed_command_names_ledgers_and_ops_of_another_place(ledgers: Path) -> None:
    work = read_work(ledgers, Limits(ops=(), shapes=()), DEFAULTS, base="")
    line = 'gate profile --op rmsnorm --shape sha1:0 --provider flydsl --out profiled --head "$HEAD"'
    elsewhere = given_of(ledgers, op_from="mine.ops:OP")
    (told,) = pasteable([Command(what="profile", line=line)], work, given=elsewhere)
    assert told.line == line.replace(" --out ", ' --op-from mine.ops:OP --ledgers "$LEDGERS" --out ')
    assert told.what == "profile; LEDGERS: the folder that this run was given"
    code = Command(what="code", line="gate codegen show rmsnorm/bf16 --base frozen_ledgers --head x")
    assert pasteable([code], work, given=elsewhere) == [code]
