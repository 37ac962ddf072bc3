"""The store on disk: whole files only, each known by its content, and what is broken named and left out."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

from gate.history import append, files, query, table  # noqa: E402
from gate.model.problem import UnusableInput  # noqa: E402
from tests.history import nights  # noqa: E402


def paths(store: Path) -> list[str]:
    """The files of the store. Each has its checksum beside it, which is left out, and there is no other."""
    found = {path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()}
    rows = {name for name in found if not name.endswith(files.SUM)}
    assert found - rows == {name + files.SUM for name in rows}
    return sorted(rows)


def count(store: Path) -> tuple[int, list[str]]:
    sql = "SELECT count(run_key), count(median_us), count(args) FROM history"
    (((rows, *_),), found) = query.asked(files.listing(store), lambda reader, _: reader.rows(sql))
    return rows, [str(problem) for problem in found.problems]


def test_one_file_a_run_by_architecture_and_month(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(3))
    found = paths(tmp_path)
    assert len(found) == 3
    assert [path.rsplit("/", 1)[0] for path in found] == [
        "arch=gfx950/month=2026-01",
        "arch=gfx950/month=2026-01",
        "arch=gfx950/month=2026-02",
    ]
    assert count(tmp_path) == (27, [])


@pytest.mark.parametrize("arch", ["../../etc", "a/b", "", None, "x" * 300, "..", "sm_90\n"])
def test_an_architecture_from_outside_names_no_other_folder(tmp_path: Path, arch: str | None) -> None:
    store = tmp_path / "store"
    rows = nights.night(0, nights.flat, arch=arch)
    added = nights.add(store, 0, rows)
    assert added.file is not None and added.file.resolve().is_relative_to(store.resolve())
    assert len(added.file.relative_to(store).parts) == 3
    assert count(store) == (9, [])


def test_the_same_rows_are_the_same_run_in_whatever_order_or_name(tmp_path: Path) -> None:
    rows = nights.night(0, nights.flat)
    first = append.add({"head": rows}, store=tmp_path, name="a", at=nights.FIRST, have={})
    again = append.add(
        {"head": rows[::-1]}, store=tmp_path, name="b", at=nights.FIRST.replace(year=2027), have=append.known(tmp_path)
    )
    assert again.file is None and again.run.name == "a" and again.run.key == first.run.key
    assert table.key_of({"head": rows}) != table.key_of({"base": rows})
    assert table.key_of({"head": rows}) != table.key_of({"head": rows[1:]})
    assert len(paths(tmp_path)) == 1


def test_a_write_that_breaks_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", breaks)
        with pytest.raises(UnusableInput, match="cannot write: No space left on device"):
            nights.add(tmp_path, 0, nights.night(0, nights.flat))
    assert paths(tmp_path) == []


BROKEN = {
    "cut off": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "text": lambda data: b"version https://git-lfs.github.com/spec/v1\n",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_is_named_and_left_out(tmp_path: Path, how: str) -> None:
    nights.fill(tmp_path, range(3))
    path = tmp_path / paths(tmp_path)[1]
    path.write_bytes(BROKEN[how](path.read_bytes()))
    rows, problems = count(tmp_path)
    assert rows == 18
    assert len(problems) == 1 and str(path) in problems[0] and "left out" in problems[0]


@pytest.mark.parametrize("made", [1, 2, 3])
def test_a_file_that_is_damaged_inside_is_named_and_left_out(tmp_path: Path, made: int) -> None:
    nights.fill(tmp_path, range(made))
    path = tmp_path / paths(tmp_path)[0]
    data = bytearray(path.read_bytes())
    for at in range(4, 1200):
        data[at] ^= 0xFF
    path.write_bytes(bytes(data))
    assert not files.listing(tmp_path).problems, "its footer is whole"
    rows, problems = count(tmp_path)
    assert rows == 9 * (made - 1)
    assert len(problems) == 1 and str(path) in problems[0] and "damaged" in problems[0]


def test_a_single_bit_that_changes_a_value_is_found_though_the_file_still_decodes(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    nights.fill(tmp_path, range(1))
    (stored,) = files.listing(tmp_path).files
    good, rows = stored.path.read_bytes(), pq.ParquetFile(stored.path).read()
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    silent = 0
    for at in range(4, footer, 11):
        data = bytearray(good)
        data[at] ^= 1
        stored.path.write_bytes(bytes(data))
        try:
            changed = not pq.ParquetFile(stored.path).read().equals(rows)
        except (pa.ArrowException, OSError, ValueError):
            continue
        silent += changed
        assert not changed or stored.path in files.unreadable([stored]), at
    assert silent > 20


def test_a_parquet_file_of_someone_else_is_no_part_of_the_store(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    nights.fill(tmp_path, range(1))
    stranger = tmp_path / "arch=gfx950" / "month=2026-01" / "x.parquet"
    pq.write_table(pa.table({"a": [1]}), stranger)
    later = tmp_path / "arch=gfx950" / "month=2026-01" / "y.parquet"
    made = pa.table({"a": [1]}).replace_schema_metadata({table.META: b'{"schema":"gate.history/2","runs":[]}'})
    pq.write_table(made, later)
    rows, problems = count(tmp_path)
    assert rows == 9
    assert len(problems) == 2 and "x.parquet: not a file of the history" in problems[0]
    assert "y.parquet: of version gate.history/2, this gate reads gate.history/1" in problems[1]


def test_no_store_is_told_and_an_empty_one_is_empty(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="no history in this folder"):
        files.listing(tmp_path / "none")
    assert count(tmp_path) == (0, [])
    assert nights.series_of(tmp_path).series == ()


def test_compaction_keeps_every_row_and_every_run(tmp_path: Path) -> None:
    nights.fill(tmp_path, range(6))
    nights.add(tmp_path, 6, nights.night(6, nights.flat), base=nights.night(5, nights.flat, seed=1))
    before = nights.everything(tmp_path)
    runs = append.known(tmp_path)
    made = append.compact(tmp_path, least=2)
    assert [(one.files, one.runs) for one in made] == [(2, 2), (5, 5)]
    assert len(paths(tmp_path)) == 2
    assert nights.everything(tmp_path) == before
    assert append.known(tmp_path) == runs
    assert nights.add(tmp_path, 3, nights.night(3, nights.flat)).file is None, "still known"
    assert append.compact(tmp_path, least=2) == []


def test_a_file_of_which_a_larger_one_holds_only_a_part_is_left_out_and_named(tmp_path: Path) -> None:
    stores = [nights.fill(tmp_path / "large", (2, 3, 4)), nights.fill(tmp_path / "small", (4, 5))]
    for store in stores:
        append.compact(store, least=2)
    ((large,), (small,)) = (files.listing(store).files for store in stores)
    beside = large.path.with_name(small.path.name)
    beside.write_bytes(small.path.read_bytes())
    found = files.listing(stores[0])
    assert [file.path for file in found.files] == [large.path]
    assert found.superseded == (beside,)
    (problem,) = found.problems
    assert problem.file == str(beside) and "partly in other files" in problem.what


def test_a_compaction_that_broke_off_counts_no_row_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nights.fill(tmp_path, range(2, 6))
    before = nights.everything(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", lambda paths: None)
        append.compact(tmp_path, least=2)
    assert len(paths(tmp_path)) == 5
    assert nights.everything(tmp_path) == before
    found = files.listing(tmp_path)
    assert len(found.superseded) == 4 and not found.problems
    append.compact(tmp_path, least=8)
    assert len(paths(tmp_path)) == 1
    assert nights.everything(tmp_path) == before
