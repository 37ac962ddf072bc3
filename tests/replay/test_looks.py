"""When a shape is warm, and when its pair is clearly clean."""

from __future__ import annotations

from gate.replay.looks import MAX_WARM_ROUNDS, Warming, clearly_clean, unsettled


def rounds(times: list[float], gpu_us: float, *, heavy: bool = True) -> int:
    """After how many rounds of one arm it is warm; the last time goes on."""
    warming = Warming(heavy=heavy)
    while not warming.settled:
        warming.saw({"arm": (times[min(warming.rounds, len(times) - 1)], gpu_us)})
    return warming.rounds


def test_a_short_kernel_is_warm_when_two_rounds_agree() -> None:
    assert rounds([2.0], 4000.0) == 2
    assert rounds([2.2, 2.0], 4000.0) == 3
    assert rounds([2.2, 2.1, 2.0, 2.0], 4000.0) == 4


def test_a_long_kernel_needs_a_tenth_of_a_second_of_load_however_steadily_it_begins() -> None:
    # 7% too fast for the first 30 ms, as recorded.
    assert rounds([388.0] * 6 + [417.0], 5000.0) == 20
    assert rounds([417.0], 12_500.0) == 8
    assert rounds([417.0], 50_000.0) == 3
    # One that only moves memory leaves the clocks where they are.
    assert rounds([417.0], 5000.0, heavy=False) == 2


def test_one_that_never_agrees_is_measured_all_the_same() -> None:
    never = [2.0 + 0.1 * (index % 2) for index in range(99)]
    assert rounds(never, 4000.0) == MAX_WARM_ROUNDS
    # One of many milliseconds has loaded the GPU long before that.
    assert rounds(never, 85_000.0) == 6


def test_without_arms_there_is_nothing_to_warm() -> None:
    warming = Warming(heavy=True)
    assert not warming.settled
    warming.saw({})
    assert warming.settled


def test_blocks_before_the_clock_settled_are_named_by_the_arms_common_pace() -> None:
    def paced(*levels: float, gap: float = 1.0) -> dict[int, dict[str, list[float]]]:
        return {block: {"a": [level, level], "b": [gap * level]} for block, level in enumerate(levels)}

    # As recorded: 361 us, the first block 3.5% too fast.
    assert unsettled(paced(349.0, 362.0, 363.0, 362.5)) == [0]
    assert unsettled(paced(349.0, 351.0, 363.0, 362.5)) == [0, 1]
    assert unsettled(paced(362.0, 349.0, 362.0, 362.5)) == []
    assert unsettled({0: {}, 1: {"a": [1.0]}}) == []
    # One arm that moves by 1.5% against its twin is no matter of clocks.
    lone = paced(100.0, 100.0, 100.0)
    lone[0]["b"] = [101.5]
    assert unsettled(lone) == []


def test_a_pair_is_clean_when_more_blocks_could_not_make_it_a_finding() -> None:
    base = [[10.0, 10.01], [10.0, 9.99], [10.02, 10.0], [10.0, 10.0]]
    assert clearly_clean([[value * 1.001 for value in block] for block in base], base)
    assert not clearly_clean([[value * 1.03 for value in block] for block in base], base)
    assert not clearly_clean(base[:1], base[:1])


def test_an_arm_whose_times_are_not_positive_has_no_pace() -> None:
    found = {block: {"a": [level], "bad": [-1.0, 0.5]} for block, level in enumerate((349.0, 362.0, 363.0))}
    assert unsettled(found) == [0]
    assert unsettled({block: {"bad": [0.0]} for block in range(3)}) == []
