"""Signal 9 for workers and coordinator at random moments: nothing is lost and the result is the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.bench.replay_kills import trial


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_lose_nothing(tmp_path: Path, seed: int) -> None:
    done, same, lost = trial(tmp_path / "t", kills=4, shapes=6, gpu=False, rng=random.Random(seed))
    assert sum(done.values()) >= 1
    assert lost == 0 and same
