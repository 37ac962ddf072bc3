"""`gate history` on the command line: what is added and what is refused, what is shown, exit codes."""

from __future__ import annotations

import csv
import json
import os

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytest.importorskip("ruptures")

from gate import store
from tests.analysis import build
from tests.commands.history_keeper import Keeper
from tests.history import nights

LEDGER = build.ledger(3)
LAYOUTS = ["{}/head/rmsnorm", "{}/head", "{}/results/rmsnorm", "{}/rmsnorm", "{}"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_is_added_from_every_layout_that_the_gate_writes_and_twice_is_once(keeper: Keeper, layout: str) -> None:
    source = keeper.measured("run", build.run(LEDGER, seed=1), layout)
    assert keeper.call("add", "--from", str(source)) == 0
    assert "1 of 1 run added, 12 rows" in keeper.out
    assert keeper.call("add", "--from", str(source)) == 0
    assert "in the history already, as run" in keeper.out and "0 of 1 run added" in keeper.out
    assert len(list(keeper.store.rglob("*.parquet"))) == 1


@pytest.mark.parametrize("sides", [("head", "base"), ("results", "base_results")])
def test_head_and_base_are_kept_apart_and_the_time_is_that_of_the_files(keeper: Keeper, sides: tuple[str, str]) -> None:
    source = keeper.measured("run", build.run(LEDGER, seed=1), f"{{}}/{sides[0]}/rmsnorm")
    keeper.measured("run", build.run(LEDGER, seed=2), f"{{}}/{sides[1]}/rmsnorm")
    for path in source.rglob("*.jsonl"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    assert keeper.call("add", "--from", str(source)) == 0
    assert [path.parent.name for path in keeper.store.rglob("*.parquet")] == ["month=2023-11"]
    out = keeper.folder / "rows.csv"
    assert keeper.call("export", "--out", str(out)) == 0
    rows = list(csv.DictReader(out.open()))
    assert [row["side"] for row in rows].count("base") == 12 and len(rows) == 24
    assert {row["measured_at"] for row in rows} == {"2023-11-14T22:13:20Z"}


def test_one_refused_row_keeps_the_whole_run_out_and_the_others_get_in(keeper: Keeper) -> None:
    good = keeper.measured("good", build.run(LEDGER, seed=1))
    bad = keeper.measured("bad", build.run(LEDGER, seed=2))
    broken = keeper.measured("bad", build.run(LEDGER, seed=2), "{}/head/softmax") / "head/softmax" / store.RESULTS_FILE
    broken.write_text(broken.read_text().replace('"graph_slope"', '"stopwatch"', 1))
    assert keeper.call("add", "--from", str(bad), "--from", str(good), str(keeper.folder / "none")) == 2
    assert f"{broken}:1: refused" in keeper.err and "no such file or folder" in keeper.err
    assert "1 of 3 runs added, 12 rows; 2 refused" in keeper.out
    assert keeper.call("show", "--json") == 0
    assert json.loads(keeper.out)["rows"] == 12


def test_a_name_and_a_time_are_those_of_one_run(keeper: Keeper) -> None:
    source = str(keeper.measured("run", build.run(LEDGER, seed=1)))
    assert keeper.call("add", source, source, "--run", "7") == 64
    assert keeper.call("add") == 64 and "nothing to add" in keeper.err
    assert keeper.call("add", source, "--run", "7", "--at", "2026-05-04T03:02:01Z") == 0
    (path,) = keeper.store.rglob("*.parquet")
    assert path.name.startswith("20260504T030201-")


def test_show_counts_what_is_there(keeper: Keeper) -> None:
    keeper.nights(3)
    assert keeper.call("show") == 0
    assert "3 runs, 27 rows (27 with a time of a checked output), 2026-01-30 to 2026-02-01" in keeper.out
    assert "9 series in 3 files" in keeper.out
    assert "measured on AMD Instinct MI350X, gfx950, graph_slope, cold_hbm: 27 rows" in keeper.out


def test_trend_prints_the_changes_worst_first_and_recent_ones_fail(keeper: Keeper) -> None:
    keeper.nights(40, step_at=30)
    assert keeper.call("trend") == 0
    line = next(line for line in keeper.out.splitlines() if nights.SHAPES[0] in line)
    assert "flydsl" in line and "1.05" in line and "2026-03-01" in line and line.rstrip().endswith("kernel")
    assert "9 series of 40 runs: 1 with a lasting change (1 slower, 0 faster, 0 of them with the machine)" in keeper.out
    assert keeper.call("trend", "--recent", "10") == 1
    assert keeper.call("trend", "--recent", "9") == 0, "ten runs ago is not recent"
    assert keeper.call("trend", "--least", "8", "--recent", "10") == 0
    assert keeper.call("trend", "--provider", "triton", "--recent", "10") == 0
    assert keeper.call("trend", "--json") == 0
    told = json.loads(keeper.out)
    assert len(told) == 9 and told[0]["changes"][0]["run"] == "night-30"


def test_trend_says_where_a_contract_changed(keeper: Keeper) -> None:
    keeper.nights(12)
    nights.fill(keeper.store, range(12, 24), cache_state="hot")
    assert keeper.call("trend") == 0
    assert "new series from 2026-02-11: cache state changed from cold_hbm to hot (9 series); not compared" in keeper.out


def test_export_filters_and_its_lines_are_json(keeper: Keeper) -> None:
    keeper.nights(3)
    out = keeper.folder / "out.jsonl"
    assert keeper.call("export", "--out", str(out), "--provider", "triton", "--shape", nights.SHAPES[1]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["run_id"] for row in rows] == ["night-0", "night-1", "night-2"]
    assert {row["provider"] for row in rows} == {"triton"}
    assert keeper.call("export", "--out", str(keeper.folder / "out.txt")) == 64
    assert keeper.call("export", "--out", str(keeper.folder / "out.txt"), "--format", "csv") == 0
    blocked = keeper.folder / "file" / "out.csv"
    blocked.parent.write_text("")
    assert keeper.call("export", "--out", str(blocked)) == 2


def test_compaction_changes_nothing_that_is_shown(keeper: Keeper) -> None:
    keeper.nights(40, step_at=30)
    assert keeper.call("trend", "--all") == 0
    before = keeper.out
    assert keeper.call("compact") == 0
    assert "from 28 files" in keeper.out and "from 10 files" in keeper.out
    assert keeper.call("trend", "--all") == 0
    assert keeper.out == before


def test_a_store_that_is_not_there_is_one_line(keeper: Keeper) -> None:
    for verb, more in (("show", ()), ("trend", ()), ("compact", ()), ("page", ("--out", "x.html"))):
        assert keeper.call(verb, *more) == 2
        assert keeper.err.strip().endswith("no history in this folder; 'gate history add' makes it")


def test_without_the_packages_it_says_what_to_install(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper.nights(1)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    assert keeper.call("show") == 2
    assert "the history needs duckdb; pip install 'flydsl-gate[history]'" in keeper.err
