"""Judging and reporting into a folder that holds a run: its verdict and its reports stay, with exit code 64."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.commands import judged
from tests.analysis import build
from tests.analysis.test_judge_command import lay_out
from tests.commands import timed_rig as rig
from tests.commands.test_run_folders import bytes_of

LEDGER = build.ledger(1)


def text(name: str, content: str = "{}\n") -> Callable[[Path], None]:
    return lambda out: store.write_text(out / name, content)


RUNS = {
    "a timed run": text("part.json"),
    "a timed run that measured nothing": text("run.json", '{"kind": "a timed run", "day": "2026-06-01"}\n'),
    "a run of machine code": text("run.json", '{"kind": "a run of machine code", "asked": {}}\n'),
    "a run": text("run.json", "damaged"),
    "a session of measurements": text("journal.jsonl", '{"header": 1}\n{"row": 1}\n'),
    "a run, whose session has begun": text("journal.jsonl", '{"header": 1}\n'),
    "results of another run": text("results/rmsnorm/benchmark_results.jsonl"),
}


@pytest.mark.parametrize("wrong", [[], ["--hed", "x"]])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_keeps_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, wrong: list[str]
) -> None:
    words, out = lay_out(tmp_path), tmp_path / "out"
    head = build.run(LEDGER, seed=2, factors={0: 2.0})
    judged.write(build.decide(LEDGER, build.run(LEDGER, seed=1), head), out)
    RUNS[name](out)
    before = bytes_of(out)
    assert run([*words, *wrong]) == 64
    (line,) = capsys.readouterr().err.splitlines()
    kind = name.partition(" that ")[0].partition(",")[0]
    told = f"gate: {out}: holds {kind}, whose verdict this would replace; name another --out"
    assert line == told if not wrong else "No such option" in line
    assert bytes_of(out) == before


def test_a_judgement_replaces_the_one_before_it(tmp_path: Path) -> None:
    words, out = lay_out(tmp_path), tmp_path / "out"
    assert run(words) == 0
    first = bytes_of(out)
    assert run([*words, "--base", str(tmp_path / "none.jsonl")]) == 2
    assert bytes_of(out) != first
    assert run(words) == 0
    assert bytes_of(out) == first


def test_a_run_that_blocked_is_not_made_to_pass(slow: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    code, stderr = rig.call([*lay_out(tmp_path)])
    assert code == 64 and "holds a timed run, whose verdict this would replace" in stderr
    assert bytes_of(out) == bytes_of(slow)


def test_reports_of_another_decision_do_not_replace_those_of_a_run(
    slow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    shutil.copytree(slow, out)
    judged.write(build.decide(LEDGER, build.run(LEDGER, seed=1), build.run(LEDGER, seed=2)), other)
    assert run(["report", "summary", "--from", str(other), "--out", str(out)]) == 64
    assert "holds a timed run" in capsys.readouterr().err
    assert bytes_of(out) == bytes_of(slow)
    assert run(["report", "summary", "--from", str(out), "--out", str(out / ".")]) == 0
