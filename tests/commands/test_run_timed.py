"""`gate run --replay` on the simulated GPU: verdicts, confirmation, resumption, and what must never be green."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gate import store
from gate.cli import run
from gate.commands.run import Limits
from gate.commands.timed_judge import MOST_NAMED, given_of, pasteable, unfinished
from gate.commands.timed_options import DEFAULTS
from gate.commands.timed_work import read_work
from gate.model.decision import Command
from gate.model.problem import Problem
from gate.resources import frozen_ledgers_dir
from tests.analysis import build
from tests.bench.run_kills import trial
from tests.commands import timed_rig as rig
from tests.factory import make_shape

SLOW = ",env=SIM_FACTOR:1.04"


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ops; the second half of the first is marked so that head's factor does not reach it."""
    rows = {
        "rmsnorm": [*rig.shapes("rmsnorm", 2), *rig.shapes("rmsnorm", 2, steady=1)],
        "softmax": rig.shapes("softmax", 2, steady=1),
    }
    return rig.write_ledgers(tmp_path_factory.mktemp("timed") / "ledgers", rows)


@pytest.fixture(scope="module")
def slow(ledgers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in which head is 4% slower on two shapes of six."""
    out = tmp_path_factory.mktemp("slow") / "out"
    code, stderr = rig.call(rig.arguments(ledgers, out, head=SLOW))
    assert code == 1, stderr
    return out


def journal(out: Path, name: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / name / "journal.jsonl").read_text().splitlines()]
    return [line for line in lines if "shape_id" in line]


def test_identical_arms_pass_and_both_questions_are_answered(ledgers: Path, tmp_path: Path) -> None:
    code, stderr = rig.call(rig.arguments(ledgers, tmp_path))
    assert code == 0, stderr
    decision = rig.decision(tmp_path)
    assert decision["gate"] == "pass" and decision["kind"] == "timing" and decision["scope"] == ""
    assert decision["counts"]["unchanged"] == decision["counts"]["total"] == 6
    assert decision["geomean"]["vs_base"] == pytest.approx(1.0, abs=0.005)
    assert decision["geomean"]["vs_best"] == pytest.approx(0.9, abs=0.01)
    assert {"comment.md", "status.json", "step_summary.md", "benchmark_summary.md", "coverage_matrix.md"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_suspects_are_confirmed_in_fresh_processes_and_nothing_else_is(slow: Path, ledgers: Path) -> None:
    decision = rig.decision(slow)
    marked = {row["shape_id"] for row in decision["rows"] if "steady" not in row["args"]}
    assert {row["shape_id"] for row in decision["rows"] if row["verdict"] == "regressed"} == marked
    again = journal(slow, "confirm")
    assert {record["shape_id"] for record in again} >= marked
    assert sorted({record["process"] for record in again if record["shape_id"] in marked})[:3] == [0, 1, 2]
    assert all({name.split("/")[0] for name in record["arms"]} == {"head", "base"} for record in again)
    first = {record["shape_id"]: record for record in journal(slow, "replay") if record["process"] == 0}
    assert all(len(first[one]["arms"]["head/flydsl"]["visits"]) == 4 for one in marked)


def test_the_rows_alone_give_the_same_decision(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    argv = ["judge", "--ledger", str(ledgers), "--matrix", str(ledgers), "--out", str(tmp_path)]
    argv += ["--base", str(slow / "base_results"), "--head", str(slow / "results")]
    argv += ["--policy", str(ledgers / "policy.toml")]
    argv += ["--confirm", str(slow / "confirm" / "base"), str(slow / "confirm" / "head")]
    assert run(argv) == 1
    alone, whole = rig.decision(tmp_path), rig.decision(slow)
    # The rows do not know where the run's ledgers and ops lie.
    assert [one["line"] for one in alone.pop("commands")] == [
        re.sub(' --op-from [^ ]+ --ledgers "[^ ]+"', "", one["line"]) for one in whole.pop("commands")
    ]
    assert alone == whole


def test_every_printed_replay_command_works_when_pasted(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    lines = [one["line"] for one in rig.decision(slow)["commands"] if one["line"].startswith("gate replay ")]
    assert lines
    arm = f"path={rig.ROOT}"
    simulated = f"--simulate {rig.SIM} --budget-us 200"
    for line in lines:
        pasted = line.replace("gate ", f"{shlex.quote(sys.executable)} -m gate ", 1).replace(
            "--out ", f"{simulated} --out {tmp_path}/", 1
        )
        given_then = f'BASE="{arm}"; HEAD="{arm}{SLOW}"; LEDGERS="{ledgers}"'
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


def test_a_list_of_shapes_is_read_from_a_file(ledgers: Path, tmp_path: Path) -> None:
    wanted = [row["shape_id"] for row in store_rows(ledgers / "rmsnorm")][:2]
    (tmp_path / "shapes_to_run.txt").write_text("".join(f"{one}\n" for one in wanted))
    more = ("--shapes-from", str(tmp_path / "shapes_to_run.txt"))
    assert rig.call(rig.arguments(ledgers, tmp_path / "out", *more))[0] == 0
    decision = rig.decision(tmp_path / "out")
    assert [row["shape_id"] for row in decision["rows"]] == wanted
    assert decision["scope"] == "2 of 6 frozen shapes (rmsnorm); 1 other op is not part of this run"
    (tmp_path / "none.txt").write_text("")
    code, stderr = rig.call(rig.arguments(ledgers, tmp_path / "o", "--shapes-from", str(tmp_path / "none.txt")))
    assert code == 2 and "names no shape" in stderr


def store_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / store.LEDGER_FILE).read_text().splitlines()]


def test_a_head_alone_tells_its_standing_and_is_no_verdict(ledgers: Path, tmp_path: Path) -> None:
    code, stderr = rig.call(rig.arguments(ledgers, tmp_path, base=None))
    assert code == 2, stderr
    decision = rig.decision(tmp_path)
    assert decision["reasons"][0] == "first_run" and decision["geomean"]["vs_best"] == pytest.approx(0.9, abs=0.01)
    assert not (tmp_path / "base_results").exists()


def test_the_time_that_was_granted_ends_it_and_resume_goes_on(ledgers: Path, slow: Path, tmp_path: Path) -> None:
    argv = rig.arguments(ledgers, tmp_path, head=SLOW)
    code, _ = rig.call([*argv, "--minutes", "0.0001"])
    assert code == 2
    decision = rig.decision(tmp_path)
    assert decision["gate"] == "no_verdict" and decision["reasons"][0] == "not_finished"
    assert "the time of --minutes is over" in decision["summary"]
    missing = [row["shape_id"] for row in decision["rows"] if row["verdict"] == "not_run"]
    assert missing and all(one in " ".join(decision["problems"]) for one in missing)
    kept = journal(tmp_path, "replay")
    assert rig.call([*argv, "--resume"])[0] == 1
    assert (tmp_path / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()
    assert journal(tmp_path, "replay")[: len(kept)] == kept


def broken_off(slow: Path, ledgers: Path, out: Path, *, without: Sequence[str]) -> list[str]:
    """The finished run as if it had broken off before these shapes were confirmed; how to go on with it."""
    shutil.copytree(slow, out)
    path = out / "confirm" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if json.loads(line).get("shape_id") not in without))
    return [*rig.arguments(ledgers, out, head=SLOW), "--resume"]


# No worker answers so soon.
DEAD = ("--watchdog", "0.00001")


def test_a_run_that_breaks_off_while_it_confirms_blocks_on_what_is_confirmed(
    slow: Path, ledgers: Path, tmp_path: Path
) -> None:
    first, second = (row["shape_id"] for row in rig.decision(slow)["rows"] if row["verdict"] == "regressed")
    argv = broken_off(slow, ledgers, tmp_path / "out", without=[second])
    assert rig.call([*argv, *DEAD])[0] == 1
    decision = rig.decision(tmp_path / "out")
    assert decision["gate"] == "block" and "not_finished" in decision["reasons"]
    assert "hang" in decision["summary"]
    assert decision["next_step"].endswith("; --resume measures the rest")
    verdicts = {row["shape_id"]: (row["verdict"], row["reasons"]) for row in decision["rows"]}
    assert verdicts[first][0] == "regressed"
    assert rig.call(argv)[0] == 1
    assert (tmp_path / "out" / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()


def test_a_run_that_breaks_off_before_anything_is_confirmed_has_no_verdict(
    slow: Path, ledgers: Path, tmp_path: Path
) -> None:
    red = [row["shape_id"] for row in rig.decision(slow)["rows"] if row["verdict"] == "regressed"]
    assert rig.call([*broken_off(slow, ledgers, tmp_path / "out", without=red), *DEAD])[0] == 2
    decision = rig.decision(tmp_path / "out")
    assert decision["gate"] == "no_verdict" and decision["reasons"][0] == "not_finished"


def test_of_a_look_that_broke_off_only_the_shapes_that_it_finished_count(
    slow: Path, ledgers: Path, tmp_path: Path
) -> None:
    first, second = (row["shape_id"] for row in rig.decision(slow)["rows"] if row["verdict"] == "regressed")
    argv = broken_off(slow, ledgers, tmp_path / "out", without=[])
    path = tmp_path / "out" / "confirm" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    last = [line for line in lines if json.loads(line).get("shape_id") == second][-1]
    path.write_text("".join(line for line in lines if line != last))
    assert rig.call([*argv, *DEAD])[0] == 1
    rows = [
        row
        for path in (tmp_path / "out" / "confirm" / "head").glob(f"*/{store.RESULTS_FILE}")
        for row in store.read_results(path).outcomes
    ]
    status = {row.shape_id: row.benchmark_status for row in rows if row.provider == "flydsl"}
    assert (status[first], status[second]) == ("ok", "skipped")


def test_a_finished_run_is_never_begun_anew_by_accident(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    code, stderr = rig.call(rig.arguments(ledgers, out, head=SLOW))
    assert code == 2 and "already holds a run; give --resume" in stderr
    assert (out / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()
    code, stderr = rig.call([*rig.arguments(ledgers, out), "--resume"])
    assert code == 2 and "holds another run: arms differ" in stderr


def test_kills_change_nothing(tmp_path: Path) -> None:
    found = trial(tmp_path, kills=6, rng=random.Random(1))
    assert found["lost"] == 0 and found["differ"] == [] and found["early"] == 0


def test_a_gpu_that_disappears_ends_the_run_and_resume_completes_it(tmp_path: Path) -> None:
    rows = [*rig.shapes("rmsnorm", 2), *rig.shapes("rmsnorm", 1, breaks=1), *rig.shapes("rmsnorm", 1, last=1)]
    root = rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rows}, candidate="vanishing")
    sim = f"{rig.SIM},gone={tmp_path}/gone"
    argv = rig.arguments(root, tmp_path / "out", sim=sim)
    code, stderr = rig.call(argv, env={"SIM_MARKS": str(tmp_path)})
    assert code == 2, stderr
    decision = rig.decision(tmp_path / "out")
    assert decision["gate"] == "no_verdict" and "the GPU no longer answers" in decision["summary"]
    assert decision["counts"]["unchanged"] == 2 and decision["counts"]["newly_failed"] == 0
    code, stderr = rig.call([*argv, "--resume"], env={"SIM_MARKS": str(tmp_path)})
    assert code == 2 and "has fallen off the bus" in stderr
    (tmp_path / "gone").unlink()
    code, stderr = rig.call([*argv, "--resume"], env={"SIM_MARKS": str(tmp_path)})
    assert code == 0, stderr
    assert rig.decision(tmp_path / "out")["counts"]["unchanged"] == 4


def test_a_machine_that_drifts_is_no_verdict(ledgers: Path, tmp_path: Path) -> None:
    sim = f"{rig.SIM},drift=0.05,drift_after=3"
    code, _ = rig.call(rig.arguments(ledgers, tmp_path, sim=sim))
    assert code == 2
    decision = rig.decision(tmp_path)
    assert decision["gate"] == "no_verdict" and "the machine changed under the session" in decision["summary"]


CLOCK = """
import random, sys, time
rng, real = random.Random(3), time.time
time.time = lambda: real() + rng.choice((-1e9, -3600.0, 0.0, 3600.0, 1e9))
from gate.cli import run
sys.exit(run(sys.argv[1:]))
"""


def test_a_clock_that_jumps_changes_nothing(ledgers: Path, slow: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", CLOCK, *rig.arguments(ledgers, tmp_path, head=SLOW)]
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
    argv = rig.arguments(ledgers, tmp_path, head=SLOW)
    for attempt, chance in enumerate((0.08, 0.04, 0.0)):
        resume = ["--resume"] if attempt else []
        command = [sys.executable, "-c", FULL, str(10 * seed + attempt), str(chance), *argv, *resume]
        done = subprocess.run(command, cwd=rig.ROOT, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (1, 2), done.stderr
        if done.returncode == 2 and (tmp_path / "status.json").is_file():
            assert json.loads((tmp_path / "status.json").read_text())["state"] == "error"
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()


def test_output_that_cannot_be_written_is_one_line(ledgers: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, stderr = rig.call(rig.arguments(ledgers, tmp_path / "file" / "out"))
    assert code == 2 and len(stderr.splitlines()) == 1 and "file" in stderr


def test_two_runs_at_once_in_one_folder(ledgers: Path, tmp_path: Path) -> None:
    with store.output_lock(tmp_path):
        code, stderr = rig.call(rig.arguments(ledgers, tmp_path))
    assert code == 2 and len(stderr.splitlines()) == 1 and "another gate writes here" in stderr


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run", "--head", "path=."], "--head needs --replay"),
        (["run", "--no-code"], "--no-code needs --replay"),
        (["run", "--replay", "--pr", "1"], "--pr needs --publish"),
        (["run", "--replay", "--candidate", "gluon", "--op", "rmsnorm"], "is not an enabled provider of rmsnorm"),
        (["run", "--replay", "--head", "speed=1"], "'speed=1' is not KEY=VALUE"),
        (["run", "--replay", "--stages", "diagnostic", "--op", "rmsnorm"], "no shape is of these stages"),
    ],
)
def test_wrong_wishes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    assert run([*argv, "--out", str(tmp_path / "out")]) == 64
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_without_a_gpu_there_is_one_line_and_no_verdict(
    ledgers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if Path("/dev/kfd").exists() or Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    code, stderr = rig.call(["run", "--replay", "--ledgers", str(ledgers), "--out", str(tmp_path)])
    assert code == 2 and len(stderr.splitlines()) == 1 and "no GPU" in stderr
    assert rig.decision(tmp_path)["gate"] == "no_verdict"


def test_an_edited_ledger_is_not_measured(tmp_path: Path) -> None:
    root = rig.write_ledgers(tmp_path / "ledgers", {"rmsnorm": rig.shapes("rmsnorm", 2)})
    path = root / "rmsnorm" / store.LEDGER_FILE
    path.write_text(path.read_text().splitlines()[0] + "\n")
    code, stderr = rig.call(rig.arguments(root, tmp_path / "out"))
    assert code == 2 and "its bytes are not those of the lock" in stderr


def test_a_decision_is_posted_when_asked(
    ledgers: Path, slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("github", reason="posting needs PyGithub: pip install 'flydsl-gate[publish]'")
    pytest.importorskip("githubkit", reason="the fake needs GitHub's own schema: pip install 'flydsl-gate[dev]'")
    from tests.publish.conftest import environment
    from tests.publish.fake import Token, running

    out, sha = tmp_path / "out", "a" * 40
    shutil.copytree(slow, out)
    with running() as fake:
        environment(fake, monkeypatch)
        fake.tokens = {"t": Token()}
        fake.add_pull(7, sha)
        argv = [*rig.arguments(ledgers, out, head=SLOW), "--resume", "--publish", "--pr", "7", "--sha", sha]
        assert run(argv) == 1
        assert [one["state"] for one in fake.statuses] == ["failure"]
        (body,) = fake.ours(7)
        assert "verdict=block" in body and fake.violations == []
        # A repository that does not let it post: the verdict stands, and is not green.
        fake.tokens = {"t": Token(scopes={})}
        assert run(argv) == 1


@pytest.mark.skipif(importlib.util.find_spec("flydsl") is None, reason="compiles with flydsl: extra codegen")
def test_machine_code_is_evidence_beside_the_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(rig.ROOT))
    shape = make_shape(op_type="vec_add", dtype="f32", args={"N": 4096, "M": 4})
    root = rig.write_ledgers(tmp_path / "ledgers", {"vec_add": [shape]})
    assert run(["codegen", "record", "--as-baseline", str(root), "--ledgers", str(root)]) == 0
    assert run(["ledger", "freeze", str(root)]) == 0
    argv = [word for word in rig.arguments(root, tmp_path / "out") if word != "--no-code"]
    path = f"path={rig.ROOT},"
    code, stderr = rig.call([word.replace(path, "") for word in argv])
    assert code == 0, stderr
    (row,) = rig.decision(tmp_path / "out")["rows"]
    assert row["ratio"] == pytest.approx(1.0, abs=0.01)
    assert row["code"]["verdict"] == "same" and row["code"]["head"]["instructions"] > 0
    # A flydsl on a path is not the one that would compile.
    code, stderr = rig.call([word.replace(str(tmp_path / "out"), str(tmp_path / "other")) for word in argv])
    assert code == 0 and "no machine code beside the times: the flydsl that is timed lies on a path" in stderr
    assert rig.decision(tmp_path / "other")["rows"][0]["code"] is None


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


def test_the_manifests_say_how_the_time_was_spent_also_of_a_run_that_broke_off(
    ledgers: Path, slow: Path, tmp_path: Path
) -> None:
    for name in ("replay", "confirm"):
        told = json.loads((slow / name / "manifest.json").read_text())
        assert 0 < told["timed_gpu_s"] < told["token_held_s"] < told["wall_s"]
        assert told["missing"] == []
    argv = rig.arguments(ledgers, tmp_path, head=SLOW)
    rig.call([*argv, "--minutes", "0.0001"])
    first = json.loads((tmp_path / "replay" / "manifest.json").read_text())
    assert first["wall_s"] > 0 and first["missing"]
    rig.call([*argv, "--resume"])
    whole = json.loads((tmp_path / "replay" / "manifest.json").read_text())
    assert whole["wall_s"] > first["wall_s"] and whole["missing"] == []


@pytest.mark.parametrize("name", ["run.json", "replay/manifest.json"])
@pytest.mark.parametrize("text", ["", "[]", '{"day": 5, "wall_s": "x"}', "[" * 10**5])
def test_a_file_of_its_own_that_is_damaged_is_one_line_and_no_verdict(
    slow: Path, ledgers: Path, tmp_path: Path, name: str, text: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    (out / name).write_text(text)
    argv = rig.arguments(ledgers, out, "--resume", head=SLOW)
    code, stderr = rig.call(argv)
    told = [line for line in stderr.splitlines() if line.startswith("gate: ")]
    assert code == 2 and "Traceback" not in stderr
    assert len(told) == 1 and f"{name}: not " in told[0] and "remove it, then --resume" in told[0]
    assert not (out / "status.json").exists() or rig.decision(out)["gate"] == "no_verdict"
    (out / name).unlink()
    assert rig.call(argv)[0] == 1
    assert (out / "decision.json").read_bytes() == (slow / "decision.json").read_bytes()


def test_what_goes_on_leaves_no_earlier_verdict_standing(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    out, edited = tmp_path / "out", tmp_path / "ledgers"
    shutil.copytree(slow, out)
    shutil.copytree(ledgers, edited)
    path = edited / "rmsnorm" / store.LEDGER_FILE
    path.write_text(path.read_text() + "{")
    assert rig.call(rig.arguments(edited, out, "--resume", head=SLOW))[0] == 2
    assert not (out / "decision.json").exists() and not (out / "status.json").exists()


@pytest.mark.parametrize(
    ("missing", "broken", "summary", "problems"),
    [
        (["a", "b"], [], "2 shapes were not measured: a, b", ["2 shapes were not measured: a, b"]),
        ([], ["the GPU is gone"], "the GPU is gone", ["the GPU is gone"]),
        (["a"], ["gone", "drifted"], "gone", ["gone", "drifted", "1 shape was not measured: a"]),
    ],
)
def test_an_unfinished_run_says_first_what_broke_it_and_then_what_is_missing(
    missing: list[str], broken: list[str], summary: str, problems: list[str]
) -> None:
    ledger = build.ledger()
    green = build.decide(ledger, build.run(ledger, seed=1), build.run(ledger, seed=2))
    found = unfinished(green, missing, [Problem(what=what, file="") for what in broken], confirmed=False)
    assert green.gate == "pass"
    assert (found.gate, found.decision, found.headline) == ("no_verdict", "blocked", "no_verdict")
    assert found.reasons[0] == "not_finished"
    assert found.summary == f"The run did not finish: {summary}. {green.summary}"
    assert found.problems == (*problems, *green.problems)
    assert found.rows == green.rows


def test_of_many_missing_shapes_the_first_are_named_and_the_others_counted() -> None:
    ledger = build.ledger()
    green = build.decide(ledger, build.run(ledger, seed=1), build.run(ledger, seed=2))
    shapes = [f"s{number}" for number in range(MOST_NAMED + 1)]
    assert unfinished(green, shapes, [], confirmed=False).problems[0].endswith(f", s{MOST_NAMED - 1} and 1 more")
    assert unfinished(green, shapes[:-1], [], confirmed=False).problems[0].endswith(f", s{MOST_NAMED - 1}")


def test_machine_code_is_not_judged_over_a_timed_run(
    slow: Path, ledgers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    assert run(["run", "--ledgers", str(ledgers), "--out", str(out)]) == 64
    said = capsys.readouterr().err
    assert "holds a timed run" in said and "name another --out" in said and said.count("\n") == 1
    for path in slow.rglob("*"):
        assert (
            not path.is_file()
            or path.name == ".lock"
            or (out / path.relative_to(slow)).read_bytes() == path.read_bytes()
        )
