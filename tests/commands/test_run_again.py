"""The commands that a run on machine code prints: pasted in another folder, they compile and show what was judged."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.codegen.toolchains import CANARIES
from gate.commands import codegen_sides, judged, timed_code
from gate.commands.codegen_inputs import Kernels
from gate.model.decision import Command
from gate.resources import frozen_ledgers_dir
from tests.commands.code_rig import record_ledgers
from tests.factory import decision_in
from tests.needs import needs_flydsl

AGAIN = Command(what="again", line="gate run --op gemm --shape sha1:0 --out gate-again")
SHOW = Command(what="show", line="gate codegen show k --base frozen_ledgers --head gate-again/results")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_ledgers(tmp_path_factory.mktemp("recorded") / "mine")


def pasted(line: str, folder: Path, **given: Path) -> tuple[int, str]:
    """Exit code and all output of a printed line in a folder, with its variables set."""
    variables = "; ".join(f"{name}={shlex.quote(str(value))}" for name, value in given.items())
    command = line.replace("gate ", f"{shlex.quote(sys.executable)} -m gate ", 1)
    done = subprocess.run(
        ["bash", "-c", f"{variables}; {command}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    return done.returncode, done.stdout + done.stderr


@needs_flydsl
@pytest.mark.parametrize("part", ["", "softmax"], ids=["all ops", "the folder of one op"])
def test_both_commands_work_when_pasted_elsewhere(recorded: Path, tmp_path: Path, part: str) -> None:
    kernels, ledgers = tmp_path / "changed", recorded / part
    shutil.copytree(CANARIES, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    text = (kernels / "rows.py").read_text()
    (kernels / "rows.py").write_text(text.replace("THREADS = 256", "THREADS = 64"))
    out = tmp_path / "out"
    assert run(["run", "--ledgers", str(ledgers), "--kernels", str(kernels), "--out", str(out)]) == 1
    again, show = (one["line"] for one in decision_in(out)["commands"])
    code, said = pasted(again, tmp_path, LEDGERS=ledgers, KERNELS=kernels)
    assert code == 1, said
    (row,) = decision_in(tmp_path / "gate-again")["rows"]
    assert row["verdict"] == "regressed"
    code, said = pasted(show, tmp_path, LEDGERS=ledgers)
    assert code == 0, said
    base, head = row["code"]["base"], row["code"]["head"]
    assert str(base["instructions"]) in said and str(head["instructions"]) in said


@needs_flydsl
def test_the_folder_of_one_op_has_its_baseline(recorded: Path, tmp_path: Path) -> None:
    assert run(["run", "--ledgers", str(recorded / "vec_add"), "--out", str(tmp_path)]) == 0
    assert decision_in(tmp_path)["counts"]["unchanged"] == 2


def sides(base: Path | None = None, *given: str, **limits: object) -> codegen_sides.Sides:
    """Sides of the gate's own kernels."""
    usual = {"arch": "gfx950", "jobs": None, "timeout": 300.0, "installed_torch": False}
    kernels = Kernels(folder=CANARIES)
    head = codegen_sides.Side(kernels=kernels, python=sys.executable)
    return codegen_sides.Sides(head=head, base=base, limits={**usual, **limits}, given=given)


def test_lines_name_ledgers_limits_and_policy_of_another_place(tmp_path: Path) -> None:
    limits = {"arch": "gfx942", "installed_torch": True}
    policy = tmp_path / "strict.toml"
    again, show = codegen_sides.repeating((AGAIN, SHOW), sides(**limits), ledgers=tmp_path / "mine", policy=policy)
    assert again.line == f'{AGAIN.line} --arch gfx942 --torch --ledgers "$LEDGERS" --policy "$POLICY"'
    assert again.what == "again; LEDGERS and POLICY: what this run was given"
    assert show.line == SHOW.line.replace("frozen_ledgers", '"$LEDGERS"') + ' --arch gfx942 --policy "$POLICY"'


def test_a_timed_run_names_what_it_compiled_beside_its_times(tmp_path: Path) -> None:
    timed = msgspec.structs.replace(judged.unusable(()), commands=(AGAIN, SHOW))
    compiled = timed_code.Code(sides=sides(None, "kernels"))
    found = timed_code.repeating(timed, compiled, ledgers=tmp_path / "mine", policy=None)
    assert found.commands[0].line == f'{AGAIN.line} --kernels "$KERNELS" --ledgers "$LEDGERS"'
    assert timed_code.repeating(timed, timed_code.Code(), ledgers=tmp_path, policy=None) == timed


def test_a_policy_beside_the_ledgers_is_named_only_where_it_would_not_be_found(tmp_path: Path) -> None:
    root = tmp_path / "mine"
    lines = codegen_sides.repeating((AGAIN, SHOW), sides(), ledgers=root, policy=root / "policy.toml")
    again, show = (one.line for one in lines)
    assert "--policy" not in again
    assert show.endswith(' --policy "$LEDGERS/policy.toml"')


def test_lines_stay_as_they_are_where_a_new_call_finds_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "frozen_ledgers").mkdir()
    monkeypatch.chdir(tmp_path)
    assert codegen_sides.repeating((AGAIN, SHOW), sides(), ledgers=Path("frozen_ledgers")) == (AGAIN, SHOW)


def test_outside_a_clone_the_usual_name_means_the_ledgers_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    key = "rmsnorm/bf16/N=4097"
    stored = store.read_codegen([frozen_ledgers_dir() / "rmsnorm" / "baselines" / "gfx950" / store.CODEGEN_FILE])
    store.write_jsonl(Path("results/rmsnorm/codegen_records.jsonl"), [stored[key]])
    assert run(["codegen", "show", key, "--base", "frozen_ledgers", "--head", "results"]) == 0
    assert f"{key}  same" in capsys.readouterr().out
