"""The scripts of baseline.yml, run as they stand against a repository on disk: what is proposed, and what is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gate import store
from gate.model.outcome import Results
from tests.analysis import build
from tests.commands.baseline_desk import LEDGER, SHA, head, write_ledgers
from tests.workflows import hosted
from tests.workflows.hosted import ROOT

REPOSITORY = "owner/kernels"
TOKEN = "secret-of-the-rehearsal"
PLACE = "frozen_ledgers/rmsnorm/baselines/gfx950"
# Keeps the pull requests that are made, and lists them.
GH = """import json, os, sys
if sys.argv[2] == "create":
    open(CALLS, "a").write(json.dumps(sys.argv[1:]) + "\\n")
elif os.path.exists(CALLS):
    print("1")
"""
STEPS = ("Judge them again", "Look for slow drift", "Write the baselines", "Propose them")
SCRIPTS = hosted.scripts("baseline.yml")
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class Runner:
    """A checkout of the default branch, its origin, and stand-ins for `gate` and `gh` on the path."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.temp = folder / "tree", folder / "temp"
        self.origin, self.calls = folder / "github" / f"{REPOSITORY}.git", folder / "gh.jsonl"
        binaries = folder / "bin"
        for path in (self.tree, self.temp, binaries):
            path.mkdir()
        hosted.gate_tool(binaries)
        hosted.tool(binaries / "gh", f"#!{sys.executable}\nCALLS = {str(self.calls)!r}\n{GH}")
        self.env = {
            "PATH": f"{binaries}:{os.environ['PATH']}", "HOME": str(folder), "RUNNER_TEMP": str(self.temp),
            "GITHUB_SERVER_URL": f"file://{folder / 'github'}", "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_TOKEN": TOKEN,
            "RUN": "4711", "HEAD_SHA": SHA, "DEFAULT": "main",
        }  # fmt: skip
        write_ledgers(self.tree / "frozen_ledgers")
        subprocess.run(["git", "init", "--quiet", "--bare", str(self.origin)], check=True)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "the default branch")

    def git(self, *words: str) -> str:
        return hosted.git(*words, cwd=self.tree)

    def intake(self, results: Results) -> None:
        """What `gate artifact take` leaves of a run."""
        for side, rows in (("head", results), ("base", build.run(LEDGER, seed=1))):
            store.write_jsonl(self.temp / "intake" / side / store.RESULTS_FILE, rows.outcomes)

    def step(self, name: str) -> subprocess.CompletedProcess[str]:
        return hosted.step(SCRIPTS[name], cwd=self.tree, env=self.env)

    def all_steps(self) -> list[subprocess.CompletedProcess[str]]:
        """The steps after the intake, up to the first that fails."""
        done = []
        for name in STEPS:
            done.append(self.step(name))
            if done[-1].returncode != 0:
                break
        return done

    def branches(self) -> str:
        return self.git("ls-remote", "--heads", str(self.origin))

    def pulls(self) -> list[Any]:
        return [json.loads(line) for line in self.calls.read_text().splitlines()] if self.calls.exists() else []


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_the_steps_are_those_of_the_rehearsal() -> None:
    names = list(SCRIPTS)
    assert names == [
        "Take the results in",
        "Judge them again",
        "Look for slow drift",
        "Write the baselines",
        "Propose them",
    ]


def test_a_passing_push_is_proposed_and_once_merged_not_again(runner: Runner) -> None:
    runner.intake(head())
    done = runner.all_steps()
    assert [one.returncode for one in done] == [0, 0, 0, 0], done[-1].stderr
    branch = f"gate/baseline-{SHA[:12]}"
    assert runner.branches().endswith(f"refs/heads/{branch}")
    runner.git("fetch", "--quiet", str(runner.origin), branch)
    changed = runner.git("diff", "--name-only", "main", "FETCH_HEAD").splitlines()
    rest = ["frozen_ledgers/rmsnorm/ledger.lock.json"]
    assert changed == [f"{PLACE}/{store.RESULTS_FILE}", f"{PLACE}/provenance.jsonl", *rest]
    line = json.loads(runner.git("show", f"FETCH_HEAD:{PLACE}/provenance.jsonl"))
    assert (line["commit"], line["run"], line["how"]) == (SHA, "4711", "promoted")
    (call,) = runner.pulls()
    assert call[:6] == ["pr", "create", "--head", branch, "--base", "main"]
    assert TOKEN not in (runner.tree / ".git" / "config").read_text()

    runner.git("switch", "--quiet", "main")
    runner.git("merge", "--quiet", branch)
    again = runner.all_steps()
    assert [one.returncode for one in again] == [0, 0, 0, 0]
    assert again[-1].stdout.strip() == "nothing new" and len(runner.pulls()) == 1


def test_a_rerun_proposes_nothing_twice_and_makes_up_for_what_failed(runner: Runner) -> None:
    runner.intake(head())
    assert runner.all_steps()[-1].returncode == 0
    for lost, pulls in ((False, 1), (True, 1)):
        if lost:
            runner.calls.unlink()
        runner.git("switch", "--quiet", "main")
        runner.git("branch", "--quiet", "-D", f"gate/baseline-{SHA[:12]}")
        done = runner.all_steps()
        assert [one.returncode for one in done] == [0, 0, 0, 0], done[-1].stderr
        assert ("already proposed" in done[-1].stdout) is not lost
        assert len(runner.pulls()) == pulls


def test_a_regressed_push_proposes_nothing_and_says_why(runner: Runner) -> None:
    runner.intake(build.edit(head(), 0, LEDGER, benchmark_status="failed", median_us=None, blocks_us=None))
    done = runner.all_steps()
    assert [one.returncode for one in done] == [0, 0, 0, 0]
    assert "the run blocked: newly_failed" in done[2].stderr and "::notice" in done[2].stdout
    assert done[3].stdout.strip() == "nothing new"
    assert runner.branches() == "" and runner.pulls() == []


def test_a_run_without_a_verdict_proposes_nothing(runner: Runner) -> None:
    runner.intake(head())
    (runner.temp / "intake" / "head" / store.RESULTS_FILE).write_text("{\n")
    done = runner.all_steps()
    assert "the run came to no verdict" in done[2].stderr and "::notice" in done[2].stdout
    assert runner.branches() == ""


def test_a_ledger_that_is_not_as_frozen_proposes_nothing(runner: Runner) -> None:
    runner.intake(head())
    with (runner.tree / "frozen_ledgers/rmsnorm" / store.MATRIX_FILE).open("a") as file:
        file.write("# edited\n")
    runner.git("commit", "--quiet", "--all", "--message", "an edit past the freeze")
    done = runner.all_steps()
    assert "ledger_refused" in done[2].stderr
    assert runner.branches() == ""


def test_unusable_input_fails_the_workflow(runner: Runner) -> None:
    runner.intake(head())
    done = runner.step("Write the baselines")
    assert done.returncode == 2 and "no decision" in done.stderr
    assert "::notice" not in done.stdout


def release(runner: Runner) -> None:
    runner.intake(head())
    assert runner.all_steps()[-1].returncode == 0
    argv = [sys.executable, "-m", "gate", "baseline", "pin", "--release", "v1", "--ledgers", "frozen_ledgers"]
    subprocess.run(argv, cwd=runner.tree, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    runner.git("add", "--all")
    runner.git("commit", "--quiet", "--message", "a release")


def test_a_push_that_measured_a_part_is_held_against_the_release_in_part_and_not_red(runner: Runner) -> None:
    release(runner)
    rows = head(5, session_id="two").outcomes
    runner.intake(Results(outcomes=tuple(row for row in rows if row.shape_id != LEDGER.shapes[0].shape_id)))
    done = runner.step("Look for slow drift")
    assert done.returncode == 0 and "only 5 of its 6 rows: 1 without a time here" in done.stderr
    assert "::notice title=Not held in full against a pinned release::" in done.stdout
    runner.intake(head(5, session_id="two"))
    done = runner.step("Look for slow drift")
    assert (done.returncode, done.stderr) == (0, "") and "::notice" not in done.stdout


def test_slow_drift_turns_the_workflow_red_and_proposes_nothing(runner: Runner) -> None:
    release(runner)
    before = runner.branches()
    slower = dict.fromkeys(range(len(LEDGER.shapes)), 1.06)
    # Beside its own base, which is as slow, nothing got slower: the judge lets it pass.
    runner.intake(head(5, factors=slower, session_id="two"))
    store.write_jsonl(
        runner.temp / "intake" / "base" / store.RESULTS_FILE,
        build.run(LEDGER, seed=6, factors=slower, session_id="two").outcomes,
    )
    done = runner.all_steps()
    assert [one.returncode for one in done] == [0, 1], done[-1].stderr
    assert "::error title=Slow drift" in done[1].stdout and "drifted: 6 rows together" in done[1].stderr
    assert runner.branches() == before
