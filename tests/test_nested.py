"""A document of our own that is nested without end is one line and no verdict, whichever verb reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.commands.ledger_files import lock_problems
from gate.ledgers.facts import read_models
from gate.ledgers.freeze import LOCK_FILE
from gate.ledgers.recipe import read_recipe
from gate.model.decision import Decision
from gate.model.problem import UnusableInput
from gate.resources import frozen_ledgers_dir

NESTED = b'{"x":' * 100_000
OP = frozen_ledgers_dir() / "vec_add"
TIMES = str(OP / "baselines" / "sm_90" / store.RESULTS_FILE)
READERS: dict[str, tuple[str, Callable[[str], list[str]]]] = {
    "promote": (
        "decision",
        lambda folder: ["baseline", "promote", "--from", folder, "--decision", folder, "--commit", "a" * 40],
    ),
    "report": ("decision", lambda folder: ["report", "coverage", "--from", folder]),
    "profile": ("decision", lambda folder: ["profile", "--decision", folder, "--out", f"{folder}/out"]),
    "profiles": (
        "diagnosis",
        lambda folder: [
            *("judge", "--ledger", str(OP / store.LEDGER_FILE), "--matrix", str(OP / store.MATRIX_FILE)),
            *("--base", TIMES, "--head", TIMES, "--profiles", folder, "--out", f"{folder}/out"),
        ],
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_of_a_document_refuses_it(reader: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, argv = READERS[reader]
    (tmp_path / f"{name}.json").write_bytes(NESTED)
    assert run(argv(str(tmp_path))) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / name}.json: not a {name}: nested too deeply" in line


def test_where_nothing_was_taken_it_is_one_line_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "decision.json").write_bytes(NESTED)
    argv = ["artifact", "judge", "--from", str(tmp_path / "none"), "--ledgers", str(OP.parent), "--out", str(tmp_path)]
    assert run(argv) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_it_is_published_as_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "decision.json").write_bytes(NESTED)
    assert run(["publish", "--from", str(tmp_path), "--repo", "o/r", "--sha", "a" * 40, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert '"state": "error"' in out and "not a decision: nested too deeply" in out


def test_a_lock_is_refused_in_the_same_words(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_bytes(NESTED)
    (problem,) = lock_problems(tmp_path)
    assert problem.what == "not a ledger lock: nested too deeply"


@pytest.mark.parametrize("read", [read_models, read_recipe])
def test_lists_of_models_and_recipes_are_refused_as_well(read: Callable[..., object]) -> None:
    with pytest.raises(UnusableInput, match=r"x\.toml: not a "):
        read(b"model = " + b"[" * 100_000, file="x.toml")


def test_text_that_is_no_utf_8_is_refused_as_well(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="not a decision: "):
        store.decode_record(b'"\xff"', Decision, file=tmp_path, what="a decision", fix="judge again")
