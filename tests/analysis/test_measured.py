"""The lean reading of results: the same rows and refusals as the full one, whatever the chunks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gate import store
from gate.model.history import Row
from gate.model.outcome import Measured, Outcome
from gate.store import reading
from tests.analysis import build

ROWS = build.run(build.ledger(5), seed=1).outcomes


def write(path: Path, faults: dict[int, str]) -> Path:
    """Rows as lines, with some replaced, blank lines between and no newline at the end."""
    lines = [faults.get(index, store.encode(row).decode()) for index, row in enumerate(ROWS)]
    path.write_text("\n\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("chunk", [1, 700, 5_000, 1 << 20])
@pytest.mark.parametrize("faults", [{}, {0: "{", 7: '{"shape_id": "x"}', 19: "[" * 5000}])
def test_the_same_rows_and_refusals_as_the_full_reading(
    chunk: int, faults: dict[int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK_BYTES", chunk)
    path = write(tmp_path / "r.jsonl", faults)
    lean, full = store.read_measured(path), store.read_results(path)
    assert lean.problems == full.problems
    assert len(lean.problems) == len(faults)
    names = Measured.__struct_fields__
    assert [[getattr(row, name) for name in names] for row in lean.outcomes] == [
        [getattr(row, name) for name in names] for row in full.outcomes
    ]


def test_the_lean_fields_are_fields_of_an_outcome_with_the_same_types() -> None:
    full = {field.name: field for field in msgspec.structs.fields(Outcome)}
    for field in msgspec.structs.fields(Measured):
        assert field.type == full[field.name].type
        assert field.required == full[field.name].required
    required = {name for name, field in full.items() if field.required}
    assert required <= set(Measured.__struct_fields__)


def test_what_the_history_keeps_are_fields_of_an_outcome_with_the_same_types() -> None:
    full = {field.name: field for field in msgspec.structs.fields(Outcome)}
    for field in msgspec.structs.fields(Row):
        assert field.type == full[field.name].type
        assert full[field.name].required or not field.required


def test_equal_strings_are_one_object(tmp_path: Path) -> None:
    rows = store.read_measured(write(tmp_path / "r.jsonl", {})).outcomes
    assert len({id(row.gpu) for row in rows}) == 1
    assert len({id(row.provider_detail) for row in rows}) == 4


def test_an_unreadable_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(store.UnusableInput, match="cannot read: No such file"):
        store.read_measured(tmp_path / "absent.jsonl")
