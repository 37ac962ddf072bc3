"""The order of visits in a session, as data: blocks of ABBA or BAAB with the controls around them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HEAD, BASE, CONTROL = "head", "base", "control"


@dataclass(frozen=True, slots=True, order=True)
class Arm:
    """One provider at one commit: `side` is head, base or control."""

    side: str
    provider: str

    def __str__(self) -> str:
        return f"{self.side}/{self.provider}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One visit: which arm, in which block, and its position in it."""

    arm: Arm
    block: int
    order: int


def block_order(rng: random.Random, *, head: Sequence[Arm], base: Sequence[Arm], controls: Sequence[Arm]) -> list[Arm]:
    """One block. With both sides: A B B A or B A A B by coin flip; every control is visited before and after.

    The controls' second visits run in the opposite order, so that a linear drift hits every arm alike.
    """
    first, second = (list(head), list(base)) if rng.random() < 0.5 else (list(base), list(head))
    inner = first + second + second[::-1] + first[::-1]
    return [*controls, *inner, *controls[::-1]]


def schedule(
    *, seed: int, shape_id: str, head: Sequence[Arm], base: Sequence[Arm], controls: Sequence[Arm], blocks: range
) -> Iterator[Stop]:
    """Every visit of the given blocks. A block's order depends on seed, shape and block number alone."""
    for block in blocks:
        rng = random.Random(f"{seed}:{shape_id}:{block}")
        for order, arm in enumerate(block_order(rng, head=head, base=base, controls=controls)):
            yield Stop(arm=arm, block=block, order=order)


def split_control(seed: int, shape_id: str, visits: Sequence[Sequence[float]]) -> tuple[list[list[float]], ...]:
    """A control's visits dealt to (head, base), one of each block to either by coin flip.

    The two rows then hold different samples of one untouched kernel: an A/A contrast inside the session.
    """
    head: list[list[float]] = []
    base: list[list[float]] = []
    for block, values in enumerate(visits):
        flipped = random.Random(f"{seed}:{shape_id}:{block}:control").random() < 0.5
        ordered = list(reversed(values)) if flipped else list(values)
        half = max(len(ordered) // 2, 1)
        head.append(ordered[:half])
        base.append(ordered[half:] or ordered[:half])
    return head, base
