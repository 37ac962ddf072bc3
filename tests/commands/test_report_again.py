"""Reports beside decisions: none outlives the decision it tells of, and one made again is the run's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.commands import judged, report, report_files
from gate.model.problem import UnusableInput
from gate.resources import frozen_ledgers_dir
from tests.analysis import build
from tests.commands import timed_rig as rig
from tests.commands.code_rig import record_ledgers
from tests.commands.test_held_folders import contents
from tests.factory import decision_in
from tests.needs import needs_flydsl

LEDGER = build.ledger(2)
REPORTS = {report_files.SUMMARY_FILE, report_files.COVERAGE_FILE, report_files.WEIGHTED_FILE, report_files.HTML_FILE}
OWN = "plots/mine.svg"


def every_report() -> set[str]:
    plots = {f"plots/{name}{ending}" for name in report_files.PLOTS for ending in report_files.PLOT_ENDINGS}
    return REPORTS | plots


def reported(out: Path) -> Path:
    """A passing decision with all its reports, and beside them a plot that is somebody's own."""
    judged.write(build.decide(LEDGER, build.run(LEDGER, seed=1), build.run(LEDGER, seed=2)), out)
    for name in (*every_report(), OWN):
        store.write_text(out / name, "pass")
    return out


def files_in(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in contents(out)}


def verbs(out: Path) -> dict[str, list[str]]:
    """Command lines that leave a new decision, or at least no old one, in `out`, which lies in an empty folder."""
    rmsnorm, nothing = frozen_ledgers_dir() / "rmsnorm", str(out.parent / "nothing")
    to = ["--out", str(out)]
    rows = ["--base", nothing, "--head", nothing]
    ledger = ["--ledger", str(rmsnorm / store.LEDGER_FILE), "--matrix", str(rmsnorm / store.MATRIX_FILE)]
    return {
        "run": ["run", "--ledgers", nothing, *to],
        "judge": ["judge", *ledger, *rows, *to],
        "judge, wrong words": ["judge", *ledger, *rows, *to, "--hed", "x"],
        "artifact judge": ["artifact", "judge", "--from", str(out.parent), *to],
        "artifact take": ["artifact", "take", "--out", nothing, "--decision", str(out)],
        "shard merge": ["shard", "merge", nothing, *to],
    }


@pytest.mark.parametrize("name", verbs(Path()))
def test_a_verb_that_replaces_a_decision_removes_its_reports_and_nothing_else(name: str, tmp_path: Path) -> None:
    out = reported(tmp_path / "out")
    assert run(verbs(out)[name]) in (2, 64)
    left = files_in(out)
    assert not left & every_report()
    assert OWN in left
    if (out / judged.DECISION_FILE).exists():
        assert decision_in(out)["gate"] == "no_verdict"
    else:
        assert "comment.md" not in left


def test_all_that_the_reports_write_is_in_the_one_list(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    base, head = build.run(LEDGER, seed=1), build.run(LEDGER, seed=2)
    judged.write(build.decide(LEDGER, base, head), tmp_path)
    for side, name in ((head, "results"), (base, "base_results")):
        store.write_jsonl(tmp_path / name / "rmsnorm" / store.RESULTS_FILE, side.outcomes)
    store.write_text(tmp_path / "history.jsonl", '{"commit": "a1", "series": "rmsnorm", "speedup": 1.01}\n')
    before = contents(tmp_path)
    argv = ["report", "all", "--from", str(tmp_path), "--history", str(tmp_path / "history.jsonl"), "--png"]
    assert run(argv) == 0
    job = report.read_job(source=tmp_path, head=None, base=None, matrix=None, out=None)
    from gate.render import html

    drawn = html.pictures(job.decision, job.rollup, job.history)
    assert {plot.name for plot in drawn} == set(report_files.PLOTS)
    written = files_in(tmp_path) - {str(path.relative_to(tmp_path)) for path in before}
    assert REPORTS | {"plots/noise.svg", "plots/trend.png"} <= written <= every_report()
    report_files.clear(tmp_path)
    assert contents(tmp_path) == before and not (tmp_path / "plots").exists()


@needs_flydsl
def test_a_run_of_machine_code_that_replaces_another_leaves_none_of_its_reports(tmp_path: Path) -> None:
    ledgers, out = record_ledgers(tmp_path / "frozen_ledgers"), tmp_path / "out"
    argv = ["run", "--ledgers", str(ledgers), "--op", "vec_add", "--out", str(out)]
    assert run(argv) == 0
    untold = files_in(out)
    for verb in ("summary", "coverage", "weighted"):
        assert run(["report", verb, "--from", str(out)]) == 0
    assert "PASS" in (out / report_files.SUMMARY_FILE).read_text().upper()
    assert run([*argv, "--base", str(tmp_path / "nothing")]) == 2
    assert decision_in(out)["gate"] == "no_verdict" and files_in(out) <= untold


def test_a_timed_run_that_goes_on_and_cannot_draw_leaves_no_old_page(slow: Path, ledgers: Path, tmp_path: Path) -> None:
    out, absent = tmp_path / "out", tmp_path / "absent"
    shutil.copytree(slow, out)
    (out / report_files.HTML_FILE).write_text("pass")
    store.write_text(absent / "matplotlib.py", "raise ImportError('no', name='matplotlib')\n")
    argv = rig.arguments(ledgers, out, "--resume", head=rig.SLOW)
    code, stderr = rig.call(argv, env={"PYTHONPATH": str(absent)})
    assert code == 1 and f"{out}: not written: report.html and plots/, which need matplotlib" in stderr
    left = files_in(out) & every_report()
    assert left == REPORTS - {report_files.HTML_FILE}


def test_reports_of_a_timed_run_made_again_are_its_own(slow: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    shutil.copytree(slow, out)
    own = contents(out)
    assert run(["report", "all", "--from", str(out)]) == 0
    assert contents(out) == own
    assert run(["report", "all", "--from", str(slow), "--out", str(tmp_path / "again")]) == 0
    again = files_in(tmp_path / "again")
    assert "plots/noise.svg" in again
    for name in again:
        assert (tmp_path / "again" / name).read_bytes() == (slow / name).read_bytes()


def test_the_rows_of_base_are_those_that_are_named_else_those_of_the_folder(
    slow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none").mkdir()
    store.write_jsonl(tmp_path / "none" / store.RESULTS_FILE, [])
    paired = []
    for more in ([], ["--base", str(slow / "base_results")], ["--base", str(tmp_path / "none")]):
        assert run(["report", "summary", "--from", str(slow), *more, "--json"]) == 0
        paired.append(sum(map(len, json.loads(capsys.readouterr().out)["controls"].values())))
    assert paired == [6, 6, 0]


def test_a_decision_cannot_be_replaced_between_reading_it_and_writing_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged.write(build.decide(LEDGER, build.run(LEDGER, seed=1), build.run(LEDGER, seed=2)), tmp_path)
    tried: list[str] = []
    read = report.read_decision

    def read_decision(path: Path) -> object:
        with pytest.raises(UnusableInput, match="another gate writes here"), store.output_lock(tmp_path):
            pass
        tried.append(path.name)
        return read(path)

    monkeypatch.setattr(report, "read_decision", read_decision)
    assert run(["report", "summary", "--from", str(tmp_path)]) == 0
    assert tried == [judged.DECISION_FILE]


def test_a_folder_without_a_decision_gets_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        assert run(["report", "all", "--from", str(folder)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "decision.json" in line
    assert list(tmp_path.iterdir()) == []
