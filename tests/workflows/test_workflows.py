"""The workflows: their form by three linters, what they may and may not do, and a rehearsal by act from end to end."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
NAMES = sorted(path.name for path in FOLDER.glob("*.yml"))
USES = re.compile(
    r"[\w.-]+/[\w.-]+@[0-9a-f]{40}|\./gate-source/\.github/actions/setup-gate|\./\.github/actions/setup-gate"
)


def tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: pip install 'flydsl-gate[dev]'")
    return found


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def loaded(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text())
    return found


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in loaded(name)["jobs"].values() for step in job.get("steps", ())]


def test_zizmor_finds_nothing_at_its_most_pedantic() -> None:
    done = run(tool("zizmor"), "--offline", "--no-progress", "--persona", "pedantic", ".github")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_ignored_finding_has_a_reason() -> None:
    for path in [*FOLDER.glob("*.yml"), ROOT / ".github" / "zizmor.yml"]:
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if "zizmor: ignore" in line or re.match(r"\s+(disable|ignore):", line):
                assert lines[number - 1].strip().startswith("#"), f"{path.name}:{number + 1} has no reason above it"


@pytest.mark.parametrize("schema", ["github-workflows", "github-actions"])
def test_the_form_is_githubs(schema: str) -> None:
    files = FOLDER.glob("*.yml") if schema == "github-workflows" else (ROOT / ".github/actions").glob("*/action.yml")
    done = run(tool("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *map(str, files))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_act_reads_the_workflow_strictly(name: str) -> None:
    done = run(tool("act"), "--validate", "--strict", "--workflows", str(FOLDER / name))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_allowed_that_is_not_asked_for(name: str) -> None:
    workflow = loaded(name)
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 240
        assert set(job["permissions"]) <= {"actions", "contents", "pull-requests", "statuses"}
    for step in steps(name):
        assert "uses" not in step or USES.fullmatch(step["uses"]), step
        assert "${{" not in step.get("run", ""), f"{step['name']}: values go in through env"
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", ["gate.yml", "benchmark.yml", "ci.yml"])
def test_what_runs_a_pull_requests_code_can_only_read(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert all(job["permissions"] == {"contents": "read"} for job in loaded(name)["jobs"].values())
    assert "secrets." not in text and "github.token" not in text and "actions/cache" not in text
    assert "pull_request_target" not in text


def test_the_trusted_half_checks_out_nothing_of_the_run() -> None:
    refs = [step["with"].get("ref", "") for step in steps("report.yml") if "checkout@" in step.get("uses", "")]
    assert refs == ["${{ github.event.repository.default_branch }}", "${{ job.workflow_sha || github.sha }}"]
    (job,) = loaded("report.yml")["jobs"].values()
    wanted = {"actions": "read", "contents": "read", "pull-requests": "write", "statuses": "write"}
    assert job["permissions"] == wanted
    assert "download-artifact" not in (FOLDER / "report.yml").read_text(), "the intake reads it in memory"


def test_the_gate_reports_on_every_event_that_protects_a_branch() -> None:
    events = loaded("gate.yml")[True]
    assert {"pull_request", "merge_group", "push", "workflow_dispatch", "workflow_call"} == set(events)
    assert all(not (events[name] or {}).get("paths") for name in ("pull_request", "merge_group", "push")), (
        "a path filter leaves a required status pending for ever"
    )


def test_manual_runs_are_bound_to_a_commit_in_their_title() -> None:
    from gate.publish.target import _TITLE

    assert _TITLE.fullmatch("gate: pull request 12 at " + "a" * 40)
    assert "format('gate: pull request {0} at {1}', inputs.pr, inputs.sha)" in loaded("gate.yml")["run-name"]


def namespaced() -> list[str]:
    for options in (["--net"], ["--map-root-user", "--net"]):
        argv = ["unshare", *options, "--", "ip", "link", "set", "lo", "up"]
        if (
            shutil.which("unshare")
            and shutil.which("ip")
            and subprocess.run(argv, capture_output=True, check=False).returncode == 0
        ):
            return ["unshare", *options, "--"]
    return []


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three rounds by act: a slower head, a faster one, and one whose measuring breaks."""
    tool("act")
    for name, extra in (("github", "publish"), ("githubkit", "dev"), ("flydsl", "codegen")):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install 'flydsl-gate[{extra}]'")
    prefix = namespaced()
    if not prefix:
        pytest.skip("this machine permits no network namespace (unshare --net), so act could reach the network")
    folder = tmp_path_factory.mktemp("rehearsal")
    argv = [*prefix, sys.executable, "-m", "tests.workflows.scenario", str(folder)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    logs = "".join(path.read_text()[-3000:] for path in sorted(folder.glob("*.log"))[-2:])
    assert done.returncode == 0, done.stdout + done.stderr + logs
    found: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    return found


def test_every_request_of_the_rehearsal_is_one_that_github_knows(rehearsal: dict[str, Any]) -> None:
    assert rehearsal["violations"] == []
    ran = [(run["workflow"], run["event"]) for run in rehearsal["act"]]
    assert ran == [("report.yml", "workflow_run"), ("gate.yml", "pull_request"), ("report.yml", "workflow_run")] * 3


@pytest.mark.parametrize(
    ("name", "code", "verdict", "state", "words"),
    [
        ("block", 0, "block", "failure", "2 of 2 rows slower"),
        ("promote", 0, "promote", "success", "none of 2 rows slower"),
        ("fails", 1, "no_verdict", "error", "No verdict"),
    ],
)
def test_each_round_ends_in_one_comment_and_its_status(
    rehearsal: dict[str, Any], name: str, code: int, verdict: str, state: str, words: str
) -> None:
    found = rehearsal["rounds"][name]
    assert (found["measured"] != 0) == bool(code)
    assert found["statuses"] == ["pending", state], "pending at the start, final last"
    (body,) = found["comments"]
    assert f"head={found['sha']} verdict={verdict} -->" in body
    assert words in found["description"]


def test_only_a_worse_verdict_is_a_new_comment(rehearsal: dict[str, Any]) -> None:
    block, promote, fails = (rehearsal["rounds"][name]["ids"] for name in ("block", "promote", "fails"))
    assert block == promote
    assert fails != promote and len(fails) == 1


def adoption() -> list[str]:
    """The two files that docs/operations.md tells to write."""
    text = (ROOT / "docs" / "operations.md").read_text()
    return [block.replace("@SHA", "@" + "a" * 40) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


def test_the_files_to_adopt_the_gate_are_what_the_called_workflows_need(tmp_path: Path) -> None:
    files = adoption()
    assert len(files) == 2
    for number, text in enumerate(files):
        path = tmp_path / f"{number}.yml"
        path.write_text(text)
        done = run(tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(path))
        assert done.returncode == 0, done.stdout + done.stderr
        caller = yaml.safe_load(text)
        (job,) = caller["jobs"].values()
        called = loaded(job["uses"].partition("@")[0].rpartition("/")[2])
        assert set(job.get("with", ())) <= set(called[True]["workflow_call"]["inputs"])
        for inner in called["jobs"].values():
            assert inner["permissions"].items() <= job["permissions"].items(), "a call cannot grant itself more"
        if "run-name" in caller:
            assert caller["run-name"] == called["run-name"]
    assert {"pull_request", "merge_group", "push", "workflow_dispatch"} == set(yaml.safe_load(files[0])[True])


@pytest.mark.parametrize(("name", "job"), [("gate.yml", "replay"), ("benchmark.yml", "benchmark")])
def test_shards_are_a_matrix_made_by_the_plan_and_die_alone(name: str, job: str) -> None:
    found = loaded(name)["jobs"][job]
    assert found["strategy"]["fail-fast"] is False
    assert re.fullmatch(r"\$\{\{ fromJSON\(needs\.\w+\.outputs\.matrix\) \}\}", found["strategy"]["matrix"])
    (measuring,) = [step["run"] for step in found["steps"] if "gate run --replay" in step.get("run", "")]
    assert '--shard "$SHARD" --plan' in measuring and found["env"]["SHARD"] == "${{ matrix.shard }}"
    merging = [step["run"] for step in steps(name) if "gate shard merge" in step.get("run", "")]
    assert len(merging) == 1 and "--plan" in merging[0]


def test_the_rehearsal_measured_on_two_runners(rehearsal: dict[str, Any]) -> None:
    assert rehearsal["shards"] == {"block": 2, "promote": 2, "fails": 0}
