"""Fixtures of all tests; what helpers assert is told as what tests assert."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytest.register_assert_rewrite(*(f"tests.{path.stem}" for path in HERE.iterdir() if path.stem.isalpha()))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code is kept in the test's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
