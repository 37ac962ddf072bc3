"""How long work shows itself where there is no terminal."""

from __future__ import annotations

import pytest

from gate.commands.progress import progress


def test_plain_lines_count_all_that_there_is_also_what_was_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    with progress("compiling", 77) as step:
        for number in range(77):
            step(f"kernel {number}")
    assert capsys.readouterr().err.splitlines() == ["compiling: 77 in all", "compiling: 77 of 77, about 0 s left"]
