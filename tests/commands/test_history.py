"""`gate history` on the command line: what is added and what is refused, what is shown, exit codes, harmless output."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytest.importorskip("ruptures")

from gate import store
from gate.cli import run
from gate.model.outcome import Results
from tests.analysis import build
from tests.history import nights

LEDGER = build.ledger(3)


class Keeper:
    """Runs on disk, a history beside them, and the command line."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.store = folder, capsys, folder / "history"

    def call(self, verb: str, *argv: str) -> int:
        self.capsys.readouterr()
        code = run(["history", verb, "--store", str(self.store), *argv])
        said = self.capsys.readouterr()
        self.out, self.err = said.out, said.err
        return code

    def measured(self, name: str, results: Results, layout: str = "{}/head/rmsnorm") -> Path:
        path = self.folder / layout.format(name) / store.RESULTS_FILE
        store.write_jsonl(path, results.outcomes)
        return self.folder / name

    def nights(self, count: int, *, step_at: int = 10**6) -> None:
        def times(number: int, shape: int, provider: str) -> float:
            return 10.5 if (shape, provider) == (0, "flydsl") and number >= step_at else 10.0

        nights.fill(self.store, range(count), times)


@pytest.fixture
def keeper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Keeper:
    return Keeper(tmp_path, capsys)


LAYOUTS = ["{}/head/rmsnorm", "{}/head", "{}/results/rmsnorm", "{}/rmsnorm", "{}"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_is_added_from_every_layout_that_the_gate_writes_and_twice_is_once(keeper: Keeper, layout: str) -> None:
    source = keeper.measured("run", build.run(LEDGER, seed=1), layout)
    assert keeper.call("add", "--from", str(source)) == 0
    assert "1 of 1 runs added, 12 rows" in keeper.out
    assert keeper.call("add", "--from", str(source)) == 0
    assert "in the history already, as run" in keeper.out and "0 of 1 runs added" in keeper.out
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


def test_a_broken_file_is_named_and_makes_the_exit_code_two(keeper: Keeper) -> None:
    keeper.nights(12)
    victim = sorted(keeper.store.rglob("*.parquet"))[0]
    victim.write_bytes(b"PAR1")
    for verb, more in (("show", ()), ("trend", ()), ("export", ("--out", str(keeper.folder / "x.jsonl")))):
        assert keeper.call(verb, *more) == 2
        assert keeper.err.count(str(victim)) == 1 and "left out" in keeper.err, verb
    assert len((keeper.folder / "x.jsonl").read_text().splitlines()) == 99


def test_check_finds_any_bit_that_turned(keeper: Keeper) -> None:
    keeper.nights(1)
    (victim,) = keeper.store.rglob("*.parquet")
    good = victim.read_bytes()
    for place in range(0, len(good), len(good) // 40):
        victim.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
        assert keeper.call("check") == 2, place
    victim.write_bytes(good)
    assert keeper.call("check") == 0
    victim.with_name(f"{victim.name}.sha256").unlink()
    assert keeper.call("check") == 2 and "its checksum cannot be read" in keeper.err


def test_check_finds_a_single_changed_value(keeper: Keeper) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    keeper.nights(3)
    assert keeper.call("check") == 0 and "3 of 3 files are whole" in keeper.out
    victim = sorted(keeper.store.rglob("*.parquet"))[1]
    good = victim.read_bytes()
    columns = pq.read_table(victim, partitioning=None)
    times = columns.column("median_us").to_pylist()
    place = columns.schema.get_field_index("median_us")
    changed = columns.set_column(place, "median_us", pa.array([times[0] * 0.9, *times[1:]]))
    pq.write_table(changed.replace_schema_metadata(columns.schema.metadata), victim)
    assert keeper.call("show") == 0, "every row can be read"
    assert keeper.call("check") == 2
    assert f"{victim}: damaged: its bytes are not those that were written" in keeper.err
    sums = victim.with_name(f"{victim.name}.sha256")
    kept = sums.read_text()
    sums.write_text(f"{hashlib.sha256(victim.read_bytes()).hexdigest()}  {victim.name}\n")
    assert keeper.call("check") == 2
    assert f"{victim}: damaged: its rows are not those that were added" in keeper.err
    sums.write_text(kept)
    victim.write_bytes(b"")
    assert keeper.call("check") == 2 and "2 of 3 files are whole" in keeper.out
    victim.write_bytes(good)
    assert keeper.call("compact", "--least", "2") == 0
    assert keeper.call("check") == 0, "the rows of a compacted file are still those that were added"


def test_random_damage_ends_in_a_line_and_never_in_a_traceback(keeper: Keeper) -> None:
    import random

    keeper.nights(2)
    victim = sorted(keeper.store.rglob("*.parquet"))[0]
    good = victim.read_bytes()
    for seed in range(30):
        rng, data = random.Random(seed), bytearray(good)
        for _ in range(rng.choice((1, 5, 40))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        victim.write_bytes(bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data))))]))
        assert keeper.call("check") in (0, 2), seed
        code = keeper.call("trend")
        assert code == 0 or (code == 2 and str(victim) in keeper.err), seed


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


HOSTILE = "<script>alert(1)</script>\x1b[31m\n::error::x \u202e$x$"


def test_text_from_rows_stays_text_on_the_page_and_in_the_terminal(keeper: Keeper) -> None:
    pytest.importorskip("matplotlib")

    def times(number: int, shape: int, provider: str) -> float:
        return 10.0 if number < 30 else 12.0

    keeper.store.mkdir()
    for number in range(40):
        fields = {"gpu": HOSTILE, "op_type": HOSTILE, "dtype": HOSTILE, "candidate_commit": HOSTILE}
        nights.add(keeper.store, number, [nights.row(number, 0, p, times(number, 0, p), **fields) for p in ("flydsl",)])
    assert keeper.call("trend", "--all") == 0
    assert "\x1b" not in keeper.out and "\u202e" not in keeper.out
    assert not any(line.lstrip().startswith("::") for line in keeper.out.splitlines())
    out = keeper.folder / "page.html"
    assert keeper.call("page", "--out", str(out)) == 0
    text = out.read_text()
    assert "<script" not in text and "\x1b" not in text and "\u202e" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_page_is_one_file_that_loads_nothing_and_is_the_same_each_time(keeper: Keeper) -> None:
    pytest.importorskip("matplotlib")
    keeper.nights(40, step_at=30)
    nights.fill(keeper.store, range(40, 52), cache_state="hot")
    out = keeper.folder / "page.html"
    assert keeper.call("page", "--out", str(out)) == 0
    text = out.read_text()
    assert "1 slower and 0 faster of 18 series" in text and "night" not in text.lower().split("<table")[0]
    assert "cache state changed from cold_hbm to hot (9 series)" in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    loaded = re.findall(r"""(?:src|href)=["'](?!#)([^"']*)|url\((?!#)([^)]*)\)|@import""", text)
    assert loaded == []
    assert text.count("<svg") == 3, "the op in two cache states, and the series that changed"
    assert keeper.call("page", "--out", str(out)) == 0
    assert out.read_text() == text


def test_the_page_says_which_files_it_could_not_read(keeper: Keeper) -> None:
    pytest.importorskip("matplotlib")
    keeper.nights(12)
    victim = sorted(keeper.store.rglob("*.parquet"))[0]
    victim.write_bytes(b"PAR1")
    out = keeper.folder / "page.html"
    assert keeper.call("page", "--out", str(out)) == 2
    assert "Files that could not be read" in out.read_text() and victim.name in out.read_text()
