"""The order of visits and the dealing of the controls."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gate.replay.blocks import BASE, CONTROL, HEAD, Arm, schedule, split_control

H, B, C = Arm(HEAD, "flydsl"), Arm(BASE, "flydsl"), Arm(CONTROL, "pytorch")


def sides(seed: int, blocks: int = 4, controls: list[Arm] | None = None) -> list[str]:
    stops = schedule(
        seed=seed,
        shape_id="s",
        head=[H],
        base=[B],
        controls=[C] if controls is None else controls,
        blocks=range(blocks),
    )
    return [f"{stop.block}{stop.arm.side[0]}" for stop in stops]


@given(st.integers())
def test_each_block_is_abba_or_baab_with_the_control_around_it(seed: int) -> None:
    found = sides(seed)
    for block in range(4):
        inner = "".join(name[1] for name in found if name[0] == str(block))
        assert inner in ("chbbhc", "cbhhbc")


def test_the_coin_falls_on_both_sides() -> None:
    firsts = Counter(sides(seed, 1)[1] for seed in range(200))
    assert min(firsts["0h"], firsts["0b"]) > 60


def test_a_block_does_not_depend_on_how_many_blocks_there_are() -> None:
    short, long = sides(3, 4), sides(3, 8)
    assert long[: len(short)] == short


def test_every_arm_gets_a_visit_early_and_late() -> None:
    controls = [Arm(CONTROL, name) for name in ("a", "b", "c")]
    stops = list(schedule(seed=1, shape_id="s", head=[H], base=[B], controls=controls, blocks=range(1)))
    for arm in (H, B, *controls):
        places = [stop.order for stop in stops if stop.arm == arm]
        # The two visits lie symmetrically, so a linear drift hits all arms alike.
        assert sum(places) == len(stops) - 1


def test_a_control_is_dealt_to_both_sides_without_overlap() -> None:
    visits = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    head, base = split_control(5, "s", visits)
    for block, pair in enumerate(visits):
        assert sorted(head[block] + base[block]) == pair
    dealt = {tuple(split_control(seed, "s", visits)[0][0]) for seed in range(40)}
    assert dealt == {(1.0,), (2.0,)}
