"""What the history keeps of a run: its key, its rows as columns, files of an earlier form, and how a run is known."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from gate.history import append, files, table
from gate.model.history import Row
from tests.history import nights
from tests.history.result_lines import compact, encode, read_rows, rows, written


def test_the_key_is_the_hash_of_the_rows_as_records_and_the_columns_give_them_back(tmp_path: Path) -> None:
    made = rows()
    made[5]["correctness_error"] = "a,b"
    blocks, _ = read_rows([written(tmp_path, list(map(compact, made)))])
    records = [msgspec.convert({name: one[name] for name in Row.__struct_fields__}, Row) for one in made]
    lines = sorted(map(encode, records))
    key = hashlib.sha256(f"head {len(lines)}\n".encode() + b"\n".join(lines)).hexdigest()
    assert table.key_of({"head": blocks}) == table.key_of({"head": records}) == key
    added = append.add({"head": blocks}, store=tmp_path / "s", name="n", at=nights.FIRST, have={})
    assert added.file is not None and added.run.key == key
    found = table.runs_in(pq.read_table(added.file, schema=table.schema(), partitioning=None))
    assert sorted(map(encode, found[key]["head"])) == lines


def test_the_same_rows_in_another_form_and_order_are_the_same_run(tmp_path: Path) -> None:
    made = rows()
    one, _ = read_rows([written(tmp_path, list(map(compact, made)), "one.jsonl")])
    two, _ = read_rows([written(tmp_path, [json.dumps(row).encode() for row in made[::-1]], "two.jsonl")])
    first = append.add({"head": one}, store=tmp_path / "s", name="one", at=nights.FIRST, have={})
    again = append.add(
        {"head": two}, store=tmp_path / "s", name="two", at=nights.FIRST, have=append.known(tmp_path / "s")
    )
    assert first.file is not None and again.file is None and again.run == first.run


def test_a_file_of_the_earlier_form_is_read_beside_new_ones(tmp_path: Path) -> None:
    """Every column as it is, those that are null in all rows too."""
    nights.fill(tmp_path, range(2))
    old = files.listing(tmp_path).files[0].path
    whole = pq.read_table(old, schema=table.schema(), partitioning=None)
    meta = pq.read_schema(old).metadata
    assert "eager_median_us" not in pq.read_schema(old).names
    before = nights.everything(tmp_path)
    pq.write_table(whole.replace_schema_metadata(meta), old, compression="zstd")
    digest = hashlib.sha256(old.read_bytes()).hexdigest()
    files.sum_of(old).write_text(f"{digest}  {old.name}\n")
    assert "eager_median_us" in pq.read_schema(old).names
    assert nights.everything(tmp_path) == before
    assert append.check(files.listing(tmp_path).files) == []
    assert nights.add(tmp_path, 0, nights.night(0, lambda *_: 10.0)).file is None, "its run is known"
    append.compact(tmp_path, least=2)
    assert nights.everything(tmp_path) == before and append.check(files.listing(tmp_path).files) == []


def test_a_run_is_known_by_its_files_name_and_by_what_is_inside_where_it_is_named_otherwise(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(4))
    listed = files.listing(tmp_path).runs
    keys = list(listed)
    paths = [file.path for file in files.listing(tmp_path).files]
    for path, name in ((paths[0], "renamed.parquet"), (paths[1], f"20200101T000000-{'0' * 16}.parquet")):
        path.rename(path.with_name(name))
    paths[2].write_bytes(b"PAR1")
    found = append.Known(tmp_path)
    assert [key in found for key in keys] == [True, False, False, True]
    assert found[keys[3]] == listed[keys[3]] and found[keys[0]] == listed[keys[0]]
    assert set(append.known(tmp_path)) == {keys[0], keys[1], keys[3]}, "all files are opened for a list"
