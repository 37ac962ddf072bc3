"""Reading by several processes in pieces yields what reading in one go does, faults and their lines included."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate import bulk, store
from tests.analysis import build


def written(path: Path, *, spoil: dict[int, bytes] | None = None, blocks: bool = True) -> Path:
    results = build.run(build.ledger(12), seed=3, k=8 if blocks else None)
    lines = [store.encode(row) for row in results.outcomes]
    for index, raw in (spoil or {}).items():
        lines.insert(index, raw)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("piece_bytes", [1, 900, 5_000, 1 << 20])
def test_pieces_are_joined_to_the_same_rows_and_problems(tmp_path: Path, piece_bytes: int, blocks: bool) -> None:
    spoil = {0: b"{", 7: b"", 20: b'{"shape_id": "s", "provider": "flydsl"}', 40: b"\xff"}
    path = written(tmp_path / "results.jsonl", spoil=spoil, blocks=blocks)
    with bulk.reader(large_bytes=0, piece_bytes=piece_bytes) as read:
        found = read(path)()
    expected = store.read_measured(path)
    assert (found.outcomes, found.problems) == (expected.outcomes, expected.problems)
    assert [problem.line for problem in found.problems] == [1, 21, 41]


def test_equal_strings_are_one_object_over_all_pieces(tmp_path: Path) -> None:
    path = written(tmp_path / "results.jsonl")
    with bulk.reader(large_bytes=0, piece_bytes=2_000) as read:
        rows = read(path)().outcomes
    assert len({id(row.torch_version) for row in rows}) == 1
    assert len({id(row.provider_detail) for row in rows}) == len({row.provider_detail for row in rows})


def test_a_missing_file_is_told_when_it_is_asked_for(tmp_path: Path) -> None:
    with bulk.reader(large_bytes=0) as read:
        waiting = read(tmp_path / "absent.jsonl")
    with pytest.raises(store.UnusableInput, match="cannot read"):
        waiting()
