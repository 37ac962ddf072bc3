"""The texts of every situation: golden files, structure, and what must never appear.

`GATE_GOLDEN=write pytest tests/render` writes the golden files anew; read the difference before committing it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gate import render
from gate.model.decision import Decision
from gate.model.status import CommitStatus
from tests.render.github import NEVER, OURS, seen
from tests.render.situations import SITUATIONS, TARGET, texts_of

GOLDEN = Path(__file__).parent / "golden"
FILES = ("comment.md", "status.json", "step_summary.md", "regression_summary.md")


@pytest.mark.parametrize("name", SITUATIONS)
def test_golden_comment(name: str) -> None:
    path = GOLDEN / f"{name}.md"
    comment = render.comment(SITUATIONS[name]())
    if os.environ.get("GATE_GOLDEN") == "write":
        path.write_text(comment, encoding="utf-8")
    assert comment == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["block_many_kinds", "codegen_fail"])
@pytest.mark.parametrize("file", ["step_summary.md", "regression_summary.md"])
def test_golden_summaries(name: str, file: str) -> None:
    path = GOLDEN / f"{name}.{file}"
    text = texts_of(name)[file]
    if os.environ.get("GATE_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_file_has_its_situation() -> None:
    assert {path.name.split(".")[0] for path in GOLDEN.glob("*.md")} == set(SITUATIONS)


@pytest.mark.parametrize("name", SITUATIONS)
def test_only_our_own_elements_come_out(name: str) -> None:
    for file, text in texts_of(name).items():
        if file.endswith(".md"):
            found = seen(text)
            assert {tag.removeprefix("/") for tag in found.tags} <= OURS, file
            assert found.linked() == []
            assert all(found.tags.count(tag) == found.tags.count(f"/{tag}") for tag in OURS - {"br"})
            assert len(found.comments) == (file == "comment.md")


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_table_row_has_the_cells_of_its_header(name: str) -> None:
    tables = {file: re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) for file, text in texts_of(name).items()}
    assert tables["comment.md"] and tables["step_summary.md"]
    for table in (each for found in tables.values() for each in found):
        assert len({line.count("|") for line in table.splitlines()}) == 1


@pytest.mark.parametrize("name", [name for name in SITUATIONS if name != "hostile_names"])
def test_no_absent_number_is_rendered(name: str) -> None:
    for file, text in texts_of(name).items():
        assert not NEVER.findall(text), file


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_comment_starts_with_its_marker(name: str) -> None:
    assert render.comment(SITUATIONS[name]()).startswith("<!-- flydsl-gate:main v1 -->\n")


def test_equal_decisions_give_equal_bytes() -> None:
    again = render.texts(SITUATIONS["block_many_kinds"](), target=TARGET)
    assert again is not texts_of("block_many_kinds") and again == texts_of("block_many_kinds")
    shuffled = SITUATIONS["block_many_kinds"]()
    shuffled = msgspec.structs.replace(shuffled, rows=shuffled.rows[::-1])
    assert render.comment(shuffled) == render.comment(SITUATIONS["block_many_kinds"]())


def test_the_four_files() -> None:
    texts = texts_of("block_one_row")
    assert tuple(texts) == FILES
    record = json.loads(texts["status.json"])
    assert record["state"] == "failure"
    assert record["target"] == TARGET
    assert msgspec.convert(record, CommitStatus) == render.status(SITUATIONS["block_one_row"](), TARGET)


def every_decision() -> Iterator[Decision]:
    for make in SITUATIONS.values():
        yield make()


def test_states_follow_the_gate() -> None:
    states = {"pass": "success", "block": "failure", "no_verdict": "error"}
    assert {(each.gate, render.status(each).state) for each in every_decision()} == set(states.items())
