"""Whether the publisher's tests can run here at all."""

from __future__ import annotations

import pytest

from tests.publish.conftest import MISSING


def test_the_publisher_is_tested_here() -> None:
    if MISSING:
        pytest.skip(f"all of tests/publish needs {', '.join(MISSING)}: pip install 'flydsl-gate[publish,dev]'")
    assert MISSING == []
