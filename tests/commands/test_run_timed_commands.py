"""The commands that a timed run prints: they work when pasted, and name what the matrices or the package do not say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import yaml

from gate import store
from gate.analysis.phrases import PROFILE_STEP, UNPROFILED_STEP
from gate.cli import run
from gate.commands.printed import SIMULATED, Given, given_of, pasteable
from gate.model.decision import Command
from gate.model.outcome import Outcome
from gate.resources import frozen_ledgers_dir
from tests.analysis import build
from tests.commands import timed_rig as rig
from tests.factory import decision_in

BARE = {"base": "base_results", "head": "results"}


def replay_lines(folder: Path) -> list[str]:
    return [one["line"] for one in decision_in(folder)["commands"] if one["line"].startswith("gate replay ")]


def pasted(line: str, folder: Path, **given: str) -> dict[str, Outcome]:
    """Pastes a printed `gate replay` in `folder`; the candidate's timed rows by shape_id."""
    command = line.replace("gate ", f"{shlex.quote(sys.executable)} -m gate ", 1).replace(
        "--out ", f"--budget-us 200 --out {folder}/", 1
    )
    arm = f"path={rig.ROOT}"
    variables = {"BASE": arm, "HEAD": f"{arm}{rig.SLOW}", "SIMULATE": rig.SIM, **given}
    script = "; ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), ""])
    script += f"PYTHONPATH={rig.ROOT} {command}"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out = folder / str(re.search(r"--out (\S+)", line)[1])  # type: ignore[index]
    rows = store.read_results(next((out / "head").glob(f"*/{store.RESULTS_FILE}"))).outcomes
    return {row.shape_id: row for row in rows if row.provider == "flydsl" and row.blocks_us}


def test_every_printed_replay_command_works_when_pasted(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    lines = replay_lines(slow)
    assert lines
    for line in lines:
        timed = pasted(line, tmp_path, LEDGERS=str(ledgers))
        assert sorted(timed) == sorted(re.findall(r"--shape (\S+)", line))
        blocks = int(re.search(r"--blocks (\d+)", line)[1])  # type: ignore[index]
        processes = int(re.search(r"--processes (\d+)", line)[1])  # type: ignore[index]
        for row in timed.values():
            assert row.blocks_us is not None and row.block_process is not None
            assert len(row.blocks_us) == blocks and len(set(row.block_process)) == processes


def test_a_replay_command_of_a_judgement_works_when_pasted(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    files = {"LEDGER": ledgers / "rmsnorm" / store.LEDGER_FILE, "MATRIX": ledgers / "rmsnorm" / store.MATRIX_FILE}
    argv = ["judge", "--ledger", str(files["LEDGER"]), "--matrix", str(files["MATRIX"])]
    argv += ["--base", str(slow / "base_results" / "rmsnorm"), "--head", str(slow / "results" / "rmsnorm")]
    argv += ["--policy", str(ledgers / "policy.toml"), "--op-from", f"{rig.KERNELS}:OP"]
    run([*argv, "--out", str(tmp_path / "judged")])
    (line,) = replay_lines(tmp_path / "judged")
    timed = pasted(line, tmp_path, **{name: str(file) for name, file in files.items()})
    assert sorted(timed) == sorted(re.findall(r"--shape (\S+)", line)) != []


def test_stored_times_that_are_open_are_settled_as_their_command_says(
    slow: Path, ledgers: Path, tmp_path: Path
) -> None:
    for side in ("base_results", "results"):
        rows = store.read_results(slow / side / "rmsnorm" / store.RESULTS_FILE).outcomes
        bare = {"blocks_us": None, "block_process": None, "session_id": None}
        store.write_jsonl(tmp_path / f"{side}.jsonl", [msgspec.structs.replace(row, **bare) for row in rows])
    argv = ["judge", "--ledger", str(ledgers / "rmsnorm"), "--matrix", str(ledgers / "rmsnorm")]
    argv += ["--policy", str(ledgers / "policy.toml"), "--op-from", f"{rig.KERNELS}:OP", "--out", str(tmp_path / "out")]
    assert run([*argv, *(f"--{side}={tmp_path}/{name}.jsonl" for side, name in BARE.items())]) == 0
    assert decision_in(tmp_path / "out")["counts"]["inconclusive"] == 2
    (command,) = decision_in(tmp_path / "out")["commands"]
    again = command["what"].split("; then judge ")[1].split(", which tells of these rows")[0]
    pasted(command["line"], tmp_path, LEDGER=str(ledgers / "rmsnorm"), MATRIX=str(ledgers / "rmsnorm"))
    asked = re.findall(r"--shape (\S+)", command["line"])
    assert run([*argv, *(str(tmp_path / word) if "/" in word else word for word in again.split())]) == 1
    found = {row["shape_id"]: row["verdict"] for row in decision_in(tmp_path / "out")["rows"]}
    assert [found[one] for one in asked] == ["regressed"] * len(asked) != []


def test_another_candidate_is_judged_on_the_ops_that_have_it_and_stays_in_the_commands(tmp_path: Path) -> None:
    ledger = build.ledger(4)
    base, head = (
        [row for row in build.run(ledger, seed=seed, k=None).outcomes if row.provider in ("triton", "pytorch")]
        for seed in (1, 2)
    )
    head = [
        msgspec.structs.replace(row, median_us=2 * (row.median_us or 0.0)) if row.provider == "triton" else row
        for row in head
    ]
    store.write_jsonl(tmp_path / "shape_ledger.jsonl", ledger.shapes)
    store.write_text(tmp_path / "baseline_matrix.yaml", yaml.safe_dump(msgspec.to_builtins(build.matrix())))
    store.write_jsonl(tmp_path / "base.jsonl", base)
    store.write_jsonl(tmp_path / "head.jsonl", head)
    names = {"ledger": "shape_ledger.jsonl", "matrix": "baseline_matrix.yaml", "base": "base.jsonl"}
    argv = ["judge", *(part for one, name in names.items() for part in (f"--{one}", str(tmp_path / name)))]
    argv += ["--head", str(tmp_path / "head.jsonl"), "--out", str(tmp_path / "out")]
    assert run([*argv, "--candidate", "triton"]) == 1
    found = decision_in(tmp_path / "out")
    assert {row["provider"] for row in found["rows"]} == {"triton"} and found["counts"]["regressed"] == 4
    assert [" --candidate triton --ledger " in line for line in replay_lines(tmp_path / "out")] == [True]
    assert run([*argv, "--candidate", "nobody"]) == 64


REPLAY = 'gate replay --op rmsnorm --shape sha1:0 --blocks 16 --processes 8 --out confirm-rmsnorm --base "$BASE"'


def told(line: str, given: Given, *, candidate: str = "flydsl", op: str = "rmsnorm") -> Command:
    """The printed command for a line of `phrases`."""
    matrices = {op: build.matrix(op, candidate_provider=candidate)}
    (command,) = pasteable([Command(what="again", line=line)], matrices=matrices, given=given)
    return command


def test_a_printed_command_names_the_candidate_where_it_is_not_the_matrices_own() -> None:
    nothing = given_of(frozen_ledgers_dir(), op_from=None)
    assert told(REPLAY, nothing, candidate="triton").line == REPLAY.replace(" --out ", " --candidate triton --out ")
    assert told(REPLAY, nothing) == Command(what="again", line=REPLAY)


def test_a_printed_command_names_ledgers_and_ops_of_another_place(ledgers: Path) -> None:
    line = 'gate profile --op rmsnorm --shape sha1:0 --provider flydsl --out profiled --head "$HEAD"'
    elsewhere = given_of(ledgers, op_from="mine.ops:OP")
    found = told(line, elsewhere)
    assert found.line == line.replace(" --out ", ' --op-from mine.ops:OP --ledgers "$LEDGERS" --out ')
    assert found.what == "again; LEDGERS: the folder of this run's ledgers"
    show = "gate codegen show rmsnorm/bf16 --base frozen_ledgers --head x"
    assert told(show, elsewhere) == Command(what="again", line=show)


def test_commands_of_a_simulated_run_stay_on_the_simulated_gpu(slow: Path) -> None:
    found = decision_in(slow)
    assert found["environment"]["head"]["gpu"] == SIMULATED
    assert {one["line"].split(" --")[0] for one in found["commands"]} == {"gate replay"}, "no profiler sees a kernel"
    assert all(one["what"].endswith("; SIMULATE: the --simulate of this run") for one in found["commands"])
    assert (found["gate"], found["next_step"]) == ("block", UNPROFILED_STEP) != ("block", PROFILE_STEP)
    texts = [file.read_text() for file in slow.glob("*.*") if file.suffix in (".md", ".json", ".html")]
    assert texts and not [text for text in texts if "profile the worst" in text or "gate profile" in text]


def test_a_ledger_and_a_matrix_of_their_own_are_named_as_the_files_that_a_measuring_command_takes(
    ledgers: Path,
) -> None:
    def place(ledger: Path, matrix: Path) -> str:
        line = told(REPLAY, Given(ledger=ledger, matrix=matrix)).line
        return line[line.index(" --ledger") : line.index(" --out ")]

    rmsnorm = ledgers / "rmsnorm"
    ledger, matrix = rmsnorm / store.LEDGER_FILE, rmsnorm / store.MATRIX_FILE
    assert place(ledger, matrix) == ' --ledger "$LEDGER" --matrix "$MATRIX"'
    assert place(rmsnorm, matrix) == f' --ledger "$LEDGER/{store.LEDGER_FILE}" --matrix "$MATRIX"'
    inside = f' --ledger "$LEDGER/rmsnorm/{store.LEDGER_FILE}" --matrix "$MATRIX/{store.MATRIX_FILE}"'
    assert place(ledgers, rmsnorm) == inside


def test_an_op_that_this_package_does_not_define_asks_for_its_place() -> None:
    found = told(REPLAY.replace("rmsnorm", "mine"), given_of(frozen_ledgers_dir(), op_from=None), op="mine")
    assert ' --op-from "$OP_FROM" ' in found.line
    assert found.what.endswith("; OP_FROM: MODULE:ATTR where the op is defined")
