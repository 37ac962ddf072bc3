"""Which look comes next: the process pairs of a confirming session."""

from __future__ import annotations

import pytest

from gate.analysis.looks import next_processes
from gate.model.policy import Policy


@pytest.mark.parametrize(
    ("done", "following"), [(0, 8), (7, 8), (8, 16), (16, 32), (31, 32), (32, 64), (64, 64), (100, 64)]
)
def test_the_next_look_of_a_confirmation_is_the_first_larger_one_and_the_last_stays(done: int, following: int) -> None:
    assert Policy().confirm.processes == (8, 16, 32, 64)
    assert next_processes(Policy(), done=done) == following
