"""The scripts of history.yml, run as they stand against a repository on disk: what the data branch holds afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gate import store
from gate.model.outcome import Results
from tests.analysis import build
from tests.workflows import hosted

pytest.importorskip("duckdb")
pytest.importorskip("matplotlib")
pytest.importorskip("ruptures")

REPOSITORY, TOKEN, BRANCH = "owner/kernels", "secret-of-the-rehearsal", "gate-history"
LEDGER = build.ledger(3)
STEPS = ("Open the history", "Append the run", "Keep it", "Tell what it shows")
SCRIPTS = hosted.scripts("history.yml")
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class Runner:
    """A checkout of the default branch, its origin, and `gate` on the path; each run has a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.origin = folder, folder / "github" / f"{REPOSITORY}.git"
        binaries = folder / "bin"
        binaries.mkdir()
        hosted.gate_tool(binaries)
        self.path = f"{binaries}:{os.environ['PATH']}"
        subprocess.run(["git", "init", "--quiet", "--bare", str(self.origin)], check=True)

    def git(self, *words: str, cwd: Path) -> str:
        return hosted.git(*words, cwd=cwd)

    def job(self, number: int, results: Results | None, at: str) -> list[subprocess.CompletedProcess[str]]:
        """The steps after the intake, in a fresh checkout as a hosted runner has it, up to the first that fails."""
        work = self.folder / f"job-{len(list(self.folder.glob('job-*')))}"
        tree, temp = work / "tree", work / "temp"
        tree.mkdir(parents=True)
        temp.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main", cwd=tree)
        (tree / "README.md").write_text("kernels\n")
        self.git("add", "--all", cwd=tree)
        self.git("commit", "--quiet", "--message", "the default branch", cwd=tree)
        if results is not None:
            store.write_jsonl(temp / "intake" / "head" / store.RESULTS_FILE, results.outcomes)
        env = {
            "PATH": self.path, "HOME": str(work), "RUNNER_TEMP": str(temp), "BRANCH": BRANCH, "GITHUB_TOKEN": TOKEN,
            "GITHUB_SERVER_URL": f"file://{self.folder / 'github'}", "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_STEP_SUMMARY": str(temp / "summary.md"), "RUN": str(number), "MEASURED_AT": at,
        }  # fmt: skip
        done = []
        for name in STEPS:
            done.append(hosted.step(SCRIPTS[name], cwd=tree, env=env))
            if done[-1].returncode != 0:
                break
        self.last = work
        return done

    def files(self) -> list[str]:
        return self.git("ls-tree", "-r", "--name-only", BRANCH, cwd=self.origin).splitlines()

    def commits(self) -> list[str]:
        return self.git("log", "--format=%s", BRANCH, cwd=self.origin).splitlines()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_the_steps_are_those_of_the_rehearsal() -> None:
    assert list(SCRIPTS) == ["Take the results in", *STEPS]


def test_runs_are_appended_one_by_one_and_a_rerun_adds_nothing(runner: Runner) -> None:
    done = runner.job(1, build.run(LEDGER, seed=1), "2026-05-04T03:02:01Z")
    assert [one.returncode for one in done] == [0, 0, 0, 0], done[-1].stderr
    assert runner.commits() == ["Run 1"]
    first = runner.files()
    assert len(first) == 3 and "index.html" in first, "rows, their checksum, the page"
    assert any(path.startswith("arch=gfx950/month=2026-05/20260504T030201-") for path in first), first
    assert "series of 1 run:" in (runner.last / "temp" / "summary.md").read_text()

    done = runner.job(2, build.run(LEDGER, seed=2), "2026-06-04T03:02:01Z")
    assert [one.returncode for one in done] == [0, 0, 0, 0], done[-1].stderr
    assert len(runner.files()) == 5 and set(first) <= set(runner.files())

    before = runner.files(), runner.commits()
    done = runner.job(2, build.run(LEDGER, seed=2), "2026-06-04T05:00:00Z")
    assert [one.returncode for one in done] == [0, 0, 0, 0], done[-1].stderr
    assert "in the history already, as 2" in done[1].stdout and done[2].stdout.strip() == "nothing new"
    assert (runner.files(), runner.commits()) == before


def test_the_branch_keeps_its_past_and_holds_nothing_of_the_code(runner: Runner) -> None:
    for number in (1, 2):
        done = runner.job(number, build.run(LEDGER, seed=number), f"2026-05-0{number}T03:02:01Z")
        assert done[-1].returncode == 0, done[-1].stderr
    assert runner.commits() == ["Run 2", "Run 1"], "a shallow fetch is pushed on top of what is there"
    assert "README.md" not in runner.files()
    kept = [path.read_text() for path in runner.last.rglob(".git/config")]
    assert kept and TOKEN not in "".join(kept)


def test_a_run_without_times_appends_nothing(runner: Runner) -> None:
    done = runner.job(1, None, "2026-05-04T03:02:01Z")
    assert [one.returncode for one in done] == [0, 0, 0, 0], done[-1].stderr
    assert "::notice" in done[1].stdout and done[2].stdout.strip() == "nothing new"
    assert runner.git("ls-remote", "--heads", str(runner.origin), cwd=runner.folder) == ""


def test_refused_rows_fail_the_job_and_push_nothing(runner: Runner) -> None:
    results = build.run(LEDGER, seed=1)
    work = runner.job(1, results, "not a time")
    assert work[-1].returncode == 64 and len(work) == 2
    assert runner.git("ls-remote", "--heads", str(runner.origin), cwd=runner.folder) == ""
    assert runner.job(1, results, "2026-05-04T03:02:01Z")[-1].returncode == 0


def test_a_damaged_file_on_the_branch_is_told_and_the_new_run_is_stored_all_the_same(runner: Runner) -> None:
    assert runner.job(1, build.run(LEDGER, seed=1), "2026-05-04T03:02:01Z")[-1].returncode == 0
    work = runner.folder / "vandal"
    runner.git("clone", "--quiet", "--branch", BRANCH, str(runner.origin), str(work), cwd=runner.folder)
    (victim,) = work.glob("*/*/*.parquet")
    victim.write_bytes(victim.read_bytes()[:100])
    runner.git("commit", "--quiet", "--all", "--message", "damage", cwd=work)
    runner.git("push", "--quiet", "origin", f"HEAD:{BRANCH}", cwd=work)
    done = runner.job(2, build.run(LEDGER, seed=2), "2026-05-05T03:02:01Z")
    assert [one.returncode for one in done] == [0, 0, 0, 2], done[-1].stderr
    assert victim.name in done[1].stderr and "::error" in done[3].stdout
    assert runner.commits() == ["Run 2", "damage", "Run 1"]


def test_a_kernel_that_got_slower_and_stayed_so_is_a_warning(runner: Runner) -> None:
    from gate.cli import run

    store_folder = runner.folder / "filled"
    for number in range(26):
        slow = {0: 1.1} if number >= 20 else {}
        source = runner.folder / "night" / str(number)
        rows = build.run(LEDGER, seed=number, run_id=f"n{number}", factors=slow)
        store.write_jsonl(source / "head" / store.RESULTS_FILE, rows.outcomes)
        at = f"2026-03-{number + 1:02}"
        assert run(["history", "add", "--store", str(store_folder), "--from", str(source), "--at", at]) == 0
    runner.git("init", "--quiet", "--initial-branch", BRANCH, cwd=store_folder)
    runner.git("add", "--all", cwd=store_folder)
    runner.git("commit", "--quiet", "--message", "nights", cwd=store_folder)
    runner.git("push", "--quiet", str(runner.origin), BRANCH, cwd=store_folder)
    done = runner.job(27, build.run(LEDGER, seed=27, factors={0: 1.1}), "2026-03-27T00:00:00Z")
    assert [one.returncode for one in done] == [0, 0, 0, 0], done[-1].stderr
    assert "::warning title=A kernel got slower" in done[3].stdout
    assert LEDGER.shapes[0].shape_id in (runner.last / "temp" / "summary.md").read_text()
