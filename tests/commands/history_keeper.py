"""Runs on disk, a history beside them, and `gate history` on both."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.model.outcome import Results
from tests.history import nights


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
