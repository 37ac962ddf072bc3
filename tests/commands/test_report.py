"""`gate report`: what it reads, what it writes, and how it refuses what it cannot use."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.commands import judged
from gate.model.report import Rollup
from tests.analysis import build

LEDGER = build.ledger(4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A judged run with its results beside it."""
    base, head = build.run(LEDGER, seed=1), build.run(LEDGER, seed=2, factors={1: 1.4})
    judged.write(build.decide(LEDGER, base, head), tmp_path)
    store.write_jsonl(tmp_path / "results" / "rmsnorm" / store.RESULTS_FILE, head.outcomes)
    store.write_jsonl(tmp_path / "base.jsonl", base.outcomes)
    return tmp_path


@pytest.mark.parametrize(
    ("verb", "file", "words"),
    [
        ("summary", "benchmark_summary.md", "Against each baseline"),
        ("coverage", "coverage_matrix.md", "| <code>aiter</code> | 4 |"),
        ("weighted", "weighted_summary.md", "weights come from a serving trace"),
    ],
)
def test_each_text_is_written_from_what_the_run_left(folder: Path, verb: str, file: str, words: str) -> None:
    assert run(["report", verb, "--from", str(folder)]) == 0  # A blocked run is told, not judged again.
    assert words in (folder / file).read_text(encoding="utf-8")


def test_reports_go_where_they_are_asked_for_and_equal_runs_give_equal_bytes(folder: Path) -> None:
    for out in ("one", "two"):
        assert run(["report", "summary", "--from", str(folder), "--out", str(folder / out)]) == 0
    one, two = ((folder / out / "benchmark_summary.md").read_bytes() for out in ("one", "two"))
    assert one == two
    assert not (folder / "benchmark_summary.md").exists()


def test_json_prints_the_figures_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["report", "summary", "--from", str(folder), "--base", str(folder / "base.jsonl"), "--json"]
    assert run(argv) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == set(Rollup.__struct_fields__)
    assert len(told["controls"]["aiter"]) == 4
    assert not (folder / "benchmark_summary.md").exists()


def test_the_page_and_its_plots(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    store.write_text(folder / "history.jsonl", '{"commit": "a1", "series": "rmsnorm", "speedup": 1.01}\n')
    assert run(["report", "all", "--from", str(folder), "--history", str(folder / "history.jsonl"), "--png"]) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Trend over commits" in page and "1 commits" not in page
    files = {path.name for path in (folder / "plots").iterdir()}
    assert {"trend.svg", "trend.png", "base-head.svg", "intervals.svg", "coverage.svg"} <= files
    assert (folder / "coverage_matrix.md").exists() and (folder / "weighted_summary.md").exists()


@pytest.fixture
def undrawable(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter without matplotlib."""
    for name in [name for name in sys.modules if name.startswith(("gate.render.plot", "gate.render.html"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("gate.render.html", raising=False)
    monkeypatch.delattr("gate.render.plot_style", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.usefixtures("undrawable")
@pytest.mark.parametrize(
    ("verb", "written"),
    [("html", ""), ("all", "written: benchmark_summary.md, coverage_matrix.md, weighted_summary.md; ")],
)
def test_without_the_plotting_library_one_line_says_what_is_written_and_what_to_install(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str, written: str
) -> None:
    assert run(["report", verb, "--from", str(folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    rest = "not written: report.html and plots/, which need matplotlib; pip install 'flydsl-gate[report]'"
    assert line == f"gate: {folder}: {written}{rest}"
    made = [name for name in ("benchmark_summary.md", "coverage_matrix.md", "weighted_summary.md") if name in written]
    assert all((folder / name).exists() for name in made)
    assert not (folder / "report.html").exists() and not (folder / "plots").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"gate": "pass"}', "[" * 100_000])
def test_a_file_that_is_no_decision_is_one_line(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "decision.json").write_text(text)
    assert run(["report", "summary", "--from", str(tmp_path)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and "decision.json" in told[0]


def test_coverage_without_results_is_refused_not_guessed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "decision.json").write_bytes((folder / "decision.json").read_bytes())
    assert run(["report", "coverage", "--from", str(bare)]) == 2
    assert "--head" in capsys.readouterr().err
    assert run(["report", "summary", "--from", str(bare)]) == 0


def test_a_bad_line_of_the_history_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    store.write_text(folder / "history.jsonl", '{"commit": "a1", "series": "rmsnorm"}\n')
    assert run(["report", "html", "--from", str(folder), "--history", str(folder / "history.jsonl")]) == 2
    assert "history.jsonl:1" in capsys.readouterr().err


def test_the_texts_need_no_plotting_library(folder: Path) -> None:
    import subprocess

    code = (
        "import sys\nfrom gate.cli import run\n"
        f"assert run(['report', 'summary', '--from', {str(folder)!r}]) == 0\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
