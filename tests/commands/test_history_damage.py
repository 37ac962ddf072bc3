"""`gate history` over files that are damaged: each is named, none is taken for whole, nothing ends in a traceback."""

from __future__ import annotations

import hashlib

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")
pytest.importorskip("ruptures")

from tests.commands.history_keeper import Keeper


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
    good, codes = victim.read_bytes(), []
    for seed in range(30):
        rng, data = random.Random(seed), bytearray(good)
        for _ in range(rng.choice((1, 5, 40))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        victim.write_bytes(bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data))))]))
        assert keeper.call("check") == 2 and str(victim) in keeper.err, seed
        codes.append(keeper.call("trend"))
        assert codes[-1] == 0 or (codes[-1] == 2 and str(victim) in keeper.err), seed
    assert 2 in codes
