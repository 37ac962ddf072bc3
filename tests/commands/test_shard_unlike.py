"""Shards that measure something else than their plan says, or went by another policy: no run, no merged verdict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gate.cli import run
from tests.commands import timed_rig as rig
from tests.factory import decision_in

PLANS = {
    "flydsl": [],
    "triton": ["--candidate", "triton"],
    "alone": ["--no-base"],
    "narrow": ["--providers", "triton"],
    "elsewhere": ["--op-from", "tests.replay.sim_kernels:OTHER"],
}
WAIVERS = (
    '[[waiver]]\nshape_id = "sha1:0000000000000000"\nprovider = "flydsl"\nmax_ratio = 1.1\nexpires = 2099-01-01\n'
    'reason = "known"\nissue = "https://example.org/1"\n'
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ledgers, plans for two, and both shards of flydsl, which is 4% slower in head."""
    root = tmp_path_factory.mktemp("unlike")
    ledgers = rig.write_ledgers(root / "ledgers", {"rmsnorm": rig.shapes("rmsnorm", 2)})
    for name, more in PLANS.items():
        plan = ["shard", "plan", "--ledgers", str(ledgers), "--runners", "2", "--out", str(root / f"{name}.json")]
        assert run([*plan, *more]) == 0
    for number in (1, 2):
        more = ["--shard", f"{number}/2", "--plan", str(root / "flydsl.json")]
        code, stderr = rig.call(rig.arguments(ledgers, root / str(number), *more, head=rig.SLOW))
        assert code == 1, stderr
    return root


def merge(ran: Path, out: Path, *more: str, second: Path | None = None) -> int:
    folders = [str(ran / "1"), str(second or ran / "2")]
    return run(["shard", "merge", *folders, "--ledgers", str(ran / "ledgers"), "--out", str(out), *more])


@pytest.mark.parametrize(
    ("plan", "more", "base", "words"),
    [
        ("triton", [], "", "the candidate of rmsnorm is flydsl, by the plan triton"),
        ("flydsl", ["--candidate", "triton"], "", "the candidate of rmsnorm is triton, by the plan flydsl"),
        ("flydsl", [], None, "base is not measured, by the plan it is"),
        ("alone", [], "", "base is measured, by the plan it is not"),
        ("narrow", [], "", "--providers is not given, by the plan triton"),
        ("elsewhere", [], "", f"--op-from is {rig.KERNELS}:OP, by the plan {rig.KERNELS}:OTHER"),
    ],
)
def test_a_run_that_is_not_the_plans_does_not_begin(
    ran: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    plan: str,
    more: list[str],
    base: str | None,
    words: str,
) -> None:
    named = ["--shard", "1/2", "--plan", str(ran / f"{plan}.json"), *more]
    assert run(rig.arguments(ran / "ledgers", tmp_path / "out", *named, base=base)) == 64
    (line,) = capsys.readouterr().err.splitlines()
    fix = "give the options that the plan was made with"
    assert line == f"gate: {ran / plan}.json: the plan is of another run: {words}; {fix}"


@pytest.mark.parametrize("plan", ["triton", "alone", "narrow", "elsewhere"])
def test_shards_of_another_plan_are_not_judged_by_it(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], plan: str
) -> None:
    assert merge(ran, tmp_path / "out", "--plan", str(ran / f"{plan}.json")) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all(f"shard {n}/2 is of another run: " in line for n, line in enumerate(lines, start=1))
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"candidates": {"rmsnorm": "triton"}}, "the candidate of rmsnorm is triton, by the plan flydsl"),
        ({"candidates": {}}, "the candidate of rmsnorm is none, by the plan flydsl"),
        ({"env": {"head": ["SIM_FACTOR=1"]}}, "setting env: shard 2/2 has {'head': ('SIM_FACTOR=1',)}"),
        ({"op_from": "another:OP"}, "setting op_from: shard 2/2 has another:OP"),
        ({"providers": ["triton"]}, "setting providers: shard 2/2 has ('triton',)"),
        ({"drift": 9.0}, "setting drift: shard 2/2 has 9.0"),
        ({"policy": "0"}, "setting policy: shard 2/2 has 0"),
        ({"waivers": "0"}, "setting waivers: shard 2/2 has 0"),
        ({"both": False}, "base is not measured, by the plan it is"),
    ],
)
def test_one_shard_unlike_the_other_is_refused(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: dict[str, Any], words: str
) -> None:
    path = Path(shutil.copytree(ran / "2", tmp_path / "2")) / "part.json"
    part = json.loads(path.read_text())
    assert fields.keys() <= {*part, *part["engine"]}
    changed = fields if "candidates" in fields else {"engine": {**part["engine"], **fields}}
    path.write_text(json.dumps({**part, **changed}))
    assert merge(ran, tmp_path / "out", second=tmp_path / "2") == 2
    assert words in capsys.readouterr().err
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"


@pytest.mark.parametrize(
    ("name", "text"), [("policy", f"{rig.POLICY}[thresholds]\nslower = 0.04\n"), ("waivers", WAIVERS)]
)
def test_shards_that_were_judged_otherwise_are_not_merged(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (tmp_path / "file.toml").write_text(text)
    assert merge(ran, tmp_path / "out", f"--{name}", str(tmp_path / "file.toml")) == 2
    fix = f"give the --{name} of the shards, or go on with each shard by this one (--resume)"
    told = f"{ran / '1'}: shard 1/2 went by another --{name} than this is to be judged by; {fix}"
    assert told in capsys.readouterr().err
    assert decision_in(tmp_path / "out")["gate"] == "no_verdict"


def test_the_same_policy_in_other_words_is_the_same(ran: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(f"# looks and processes\n\n{rig.POLICY}")
    assert merge(ran, tmp_path / "out", "--policy", str(tmp_path / "policy.toml")) == 1


def test_a_plan_without_a_candidate_of_an_op_is_refused(
    ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {**json.loads((ran / "flydsl.json").read_text()), "candidates": {}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert merge(ran, tmp_path / "out", "--plan", str(tmp_path / "plan.json")) == 2
    assert "the candidate of rmsnorm is flydsl, by the plan none" in capsys.readouterr().err
