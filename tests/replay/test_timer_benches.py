"""The rig of the timer benches and what they compute, on made-up workers: rings, fallback, truth and its error."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from gate.replay.chips import Chip
from gate.replay.timer import RING_BYTES, room
from tests.bench import timer_aa, timer_seeded
from tests.bench.dial_search import Search
from tests.bench.replay_rig import block_ratios, mean_and_error, planned, prepare_pair
from tests.bench.timer_seeded import Bench, Pair, calibrate, measure, off_pp

CHIP = {"name": "H200", "l2_bytes": 60 << 20, "mall_bytes": 0, "bandwidth_gbps": 4800.0, "tflops": {}}
BASE_US, ROUND_US = 2.0, 0.01
GIB = 1 << 30


class Made:
    """A side whose kernel takes 2 us, 0.01 us more for each round, and `bias` of that."""

    def __init__(self, name: str, bias: float = 0.0, *, footprint: int = 1 << 20) -> None:
        self.link = SimpleNamespace(name=name, pid=id(self))
        self.chip, self.bias, self.footprint = CHIP, bias, footprint
        self.rounds, self.asked, self.memory = 0, [], True

    def open(self, args: dict[str, Any]) -> None:
        self.asked.append(("open", args))

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        self.asked.append((do, more))
        if do == "turn":
            self.rounds = more["rounds"]
        if do == "pilot":
            return {"footprint_bytes": self.footprint, "estimate_us": 300.0, "free_bytes": 140 * GIB}
        return {"t_us": (BASE_US + ROUND_US * self.rounds) * (1 + self.bias), "gpu_ms": 1.0}

    def ready(self, plan: dict[str, Any], memory: Any = None) -> None:
        from tests.bench.replay_rig import NoRoomShared

        self.asked.append(("ready", {"copies": plan["copies"], "shared": memory is not None}))
        if memory is not None and plan["copies"] * self.footprint > memory.size:
            raise NoRoomShared("the shared memory is too small")


class Memory:
    """Shared memory that everybody reaches."""

    size = 3 * GIB
    refusal = None

    def reach(self, link: Any, ask: Any) -> bool:
        del link, ask
        return True


def prepared(footprint: int, memory: Any) -> tuple[dict[str, Any], str, list[dict[str, Any]]]:
    head, base = Made("head", footprint=footprint), Made("base", footprint=footprint)
    plan, own = prepare_pair(head, base, [{}, {}], 2000.0, memory=memory)  # type: ignore[arg-type]
    readies = [[more for do, more in side.asked if do == "ready"][-1] for side in (head, base)]
    return plan, own, readies


def test_the_ring_keeps_to_the_memory_that_is_shared() -> None:
    memory = Memory()
    memory.size = 600 << 20
    plan, own, readies = prepared(100 << 20, memory)
    assert plan["copies"] == room(Chip(**CHIP), memory.size) // (100 << 20)
    assert own == ""
    assert readies == [{"copies": plan["copies"], "shared": True}] * 2
    without = planned(CHIP, [Made("x", footprint=100 << 20).ask("pilot")], 2000.0, None)
    assert plan["copies"] < without["copies"] <= RING_BYTES // (100 << 20)


def test_a_ring_that_cannot_fit_lies_in_memory_of_its_own_and_its_line_says_so() -> None:
    plan, own, readies = prepared(1650 << 20, Memory())
    assert readies == [{"copies": plan["copies"], "shared": False}] * 2
    said = timer_aa.told(plan, own, shared=True)
    assert "memory of their own: the shared memory is too small" in said
    assert "in shared memory" in timer_aa.told(plan, "", shared=True)


def test_an_error_is_that_of_the_mean() -> None:
    assert block_ratios([2.0, 4.0, 3.0, 3.0], [1.0, 1.0, 2.0, 2.0]) == [3.0, 1.5]
    mean, error = mean_and_error([1.0, 2.0, 3.0, 2.0])
    assert (mean, error) == (2.0, pytest.approx((2 / 3) ** 0.5 / 2))


@pytest.mark.parametrize("targets", [(0.02, 0.5), (0.1,)])
def test_the_dial_is_turned_to_what_is_asked(targets: tuple[float, ...]) -> None:
    found = calibrate(lambda rounds: BASE_US + ROUND_US * rounds, targets)
    assert found == [round(BASE_US * target / ROUND_US) for target in targets]


def bench(biases: list[float]) -> Bench:
    reading, *truth, long = [Pair(Made(f"h{at}", bias), Made(f"b{at}")) for at, bias in enumerate(biases)]  # type: ignore[arg-type]
    return Bench(reading=reading, truth=truth, long=long)


def test_the_truth_is_that_of_other_processes_under_the_same_conditions() -> None:
    made = bench([0.004, 0.001, -0.001, 0.03])
    read = measure(made, 20, random.Random(1))
    assert read["true"] == (pytest.approx(1.1), pytest.approx(1.1 * 0.001))
    assert read["slope"][0] == pytest.approx(1.1 * 1.004)
    assert read["10 ms"][0] == pytest.approx(1.1 * 1.03)
    assert off_pp(read) == pytest.approx(0.44)
    visits = [sum(do == "slope" for do, _ in side.asked) for side in made.every]  # type: ignore[attr-defined]
    # Two rounds that agree, then eight visits.
    assert visits == [2 + 8] * 6 + [0, 0]
    assert [side.rounds for side in made.every] == [20, 0] * 4  # type: ignore[attr-defined]


def test_the_summary_counts_what_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    reads = [measure(bench([bias, 0.0, 0.0, 0.0]), 20, random.Random(1)) for bias in (0.004, 0.001)]
    timer_seeded.tell(reads)
    said = capsys.readouterr().out
    assert "at most 0.44 percentage points" in said
    assert "1 of 2 cases within 0.3" in said
    assert len(timer_seeded.line(reads[0], 20).split()) == len(timer_seeded.HEADS)


def test_a_search_stops_where_it_is_near_enough_and_never_passes_its_limit() -> None:
    asked: list[int] = []

    def slower(rounds: int) -> float:
        asked.append(rounds)
        return rounds / 10_000

    search = Search(slower)
    search.reach(0.03, first=8, factor=3, limit=1 << 18)
    assert asked == [8, 24, 72, 216, 648]
    assert abs(search.seen[search.near(0.03, tries=5, enough=0.05)] / 0.03 - 1) < 0.05
    assert len(asked) <= 10
    # Work that a kernel hides whole is never found, and not for ever looked for.
    hidden = Search(lambda rounds: 0.0)
    hidden.reach(0.03, first=8, factor=3, limit=100)
    assert sorted(hidden.seen) == [0, 8, 24, 72] and hidden.seen[hidden.near(0.03, tries=5)] == 0.0
