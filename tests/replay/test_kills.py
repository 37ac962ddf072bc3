"""Signal 9 for workers and coordinator at random moments: nothing is lost and the result is the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.bench.replay_kills import Peace, run_in_peace, trial


@pytest.fixture(scope="module")
def peace(tmp_path_factory: pytest.TempPathFactory) -> Peace:
    return run_in_peace(tmp_path_factory.mktemp("kills") / "peace", shapes=6, gpu=False)


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_lose_nothing(tmp_path: Path, peace: Peace, seed: int) -> None:
    done, same, lost = trial(tmp_path / "war", peace, kills=4, rng=random.Random(seed))
    assert sum(done.values()) >= 1
    assert lost == 0 and same
