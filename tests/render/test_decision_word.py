"""The decision in words: a run without a verdict blocks nothing, wherever it is told."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from gate import render
from gate.model.decision import Decision
from gate.render import terminal
from tests.render.situations import SITUATIONS


def told(decision: Decision) -> str:
    console = Console(file=io.StringIO(), width=200)
    terminal.show(decision, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue() + "".join(render.texts(decision).values())


@pytest.mark.parametrize("name", sorted(SITUATIONS))
def test_only_a_run_that_blocks_is_called_blocked(name: str) -> None:
    decision = SITUATIONS[name]()
    text = told(decision).lower()
    blocked = "decision: blocked" in text or "decision blocked" in text
    assert blocked == (decision.gate == "block")
    assert ("decision: none; next: " in text) == (decision.gate == "no_verdict" and decision.decision == "blocked")


def test_what_was_measured_and_is_open_keeps_its_word() -> None:
    decision = msgspec.structs.replace(SITUATIONS["pass_tune"](), gate="no_verdict")
    assert "decision: tune needed; next: " in told(decision)
