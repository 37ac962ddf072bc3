"""Who may use the GPU: preparations side by side, a measurement alone, and nobody left waiting."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from gate.replay.token import Token
from tests.replay import rig


def test_a_measurement_is_alone_and_preparations_meet() -> None:
    token, inside, most, wrong = Token(), {"alone": 0, "beside": 0}, [0], []
    counting = threading.Lock()

    def enter(kind: str, seconds: float) -> None:
        with counting:
            inside[kind] += 1
            most[0] = max(most[0], inside["beside"])
            if inside["alone"] > 1 or (inside["alone"] and inside["beside"]):
                wrong.append(dict(inside))
        time.sleep(seconds)
        with counting:
            inside[kind] -= 1

    def lane(number: int) -> None:
        rng = random.Random(number)
        for _ in range(20):
            with token.share():
                enter("beside", rng.random() * 2e-3)
            with token.hold():
                enter("alone", rng.random() * 1e-3)

    lanes = [threading.Thread(target=lane, args=(number,), daemon=True) for number in range(6)]
    for each in lanes:
        each.start()
    for each in lanes:
        each.join(timeout=60)
    assert not any(each.is_alive() for each in lanes), "a lane waits for ever"
    assert wrong == []
    assert most[0] > 1
    assert 0 < token.alone_s < token.held_s
    assert token.shared_s > token.held_s - token.alone_s, "they never shared it"


def test_who_waits_to_be_alone_goes_before_who_would_share() -> None:
    token, order = Token(), []

    def holder() -> None:
        with token.hold():
            order.append("alone")

    def sharer() -> None:
        with token.share():
            order.append("beside")

    with token.share():
        one = threading.Thread(target=holder, daemon=True)
        one.start()
        rig.wait_for(lambda: token._waiting == 1)
        two = threading.Thread(target=sharer, daemon=True)
        two.start()
        two.join(0.05)
        assert order == []
    one.join(10)
    two.join(10)
    assert order == ["alone", "beside"]


def test_a_failure_inside_gives_the_gpu_back() -> None:
    token = Token()
    for way in (token.hold, token.share):
        try:
            with way():
                raise RuntimeError
        except RuntimeError:
            pass
    with token.hold(), token._turn:
        assert token._alone


def test_a_shape_that_found_no_memory_beside_others_is_measured_alone(tmp_path: Path) -> None:
    ledger = [*rig.shapes(2), *rig.shapes(1, breaks=True)]
    rig.write_inputs(tmp_path, ledger=ledger, candidate="no_memory_once")
    code, stderr = rig.run(tmp_path, "--base", f"path={rig.ROOT}", "--lanes", "2", env={"SIM_MARKS": str(tmp_path)})
    assert code == 0, stderr
    found = rig.by_provider(rig.rows(tmp_path), "flydsl")
    assert [row.benchmark_status for row in found] == ["ok", "ok", "ok"]
    assert rig.manifest(tmp_path)["missing"] == []


def test_a_shape_that_finds_no_memory_even_alone_says_so(tmp_path: Path) -> None:
    ledger = [*rig.shapes(2), *rig.shapes(1, breaks=True)]
    rig.write_inputs(tmp_path, ledger=ledger, candidate="no_memory")
    code, stderr = rig.run(tmp_path, "--base", f"path={rig.ROOT}", "--lanes", "2")
    assert code == 0, stderr
    found = rig.by_provider(rig.rows(tmp_path), "flydsl")
    assert [row.benchmark_status for row in found] == ["ok", "ok", "oom"]


def test_few_share_at_a_time_where_that_is_asked_for() -> None:
    token, inside, most = Token(), [0], [0]
    counting = threading.Lock()

    def lane() -> None:
        for _ in range(10):
            with token.share(2):
                with counting:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                time.sleep(2e-3)
                with counting:
                    inside[0] -= 1

    lanes = [threading.Thread(target=lane, daemon=True) for _ in range(5)]
    for each in lanes:
        each.start()
    for each in lanes:
        each.join(60)
    assert not any(each.is_alive() for each in lanes)
    assert most == [2]
