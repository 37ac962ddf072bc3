"""What a bisection asks and what it is told, as records that can be kept: equal answers give an equal bisection."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import msgspec

Found = TypeVar("Found")


class AskCode(msgspec.Struct, frozen=True, kw_only=True, tag="code", tag_field="ask"):
    """What code does this version run? Costs no GPU. `version` counts from the good end."""

    version: int


class AskTimes(msgspec.Struct, frozen=True, kw_only=True, tag="times", tag_field="ask"):
    """How do two versions compare in one more pair of fresh processes? `process` counts the pairs of this comparison.

    `purpose` tells comparisons of the same two versions apart (ends, step, confirm).
    """

    head: int
    base: int
    process: int
    purpose: str


class Code(msgspec.Struct, frozen=True, kw_only=True, tag="code", tag_field="told"):
    """The signature of a version's code; equal ones mean equal code. Empty where nothing can be said."""

    signature: str
    words: str = ""


class Times(msgspec.Struct, frozen=True, kw_only=True, tag="times", tag_field="told"):
    """log(head time / base time) of each block of one process pair, and the GPU seconds they took."""

    log_ratios: tuple[float, ...]
    gpu_s: float = 0.0
    words: str = ""


class Skipped(msgspec.Struct, frozen=True, kw_only=True, tag="skipped", tag_field="told"):
    """The version cannot be built or measured; `reason` says why."""

    version: int
    reason: str


Ask = AskCode | AskTimes
Answer = Code | Times | Skipped


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One question with its answer: a line of the state on disk."""

    ask: Ask
    told: Answer


def drive(
    search: Generator[Ask, Answer, Found],
    answer: Callable[[Ask], Answer],
    *,
    recorded: Sequence[Exchange] = (),
    keep: Callable[[Exchange], None] = lambda exchange: None,
) -> Found:
    """Runs a search to its end: first from what is recorded, as long as the questions are the same, then live.

    `keep` gets each new exchange before the search goes on. Raises whatever `answer` raises.
    """
    past = iter(recorded)
    fresh = False
    try:
        ask = next(search)
        while True:
            known = None if fresh else next(past, None)
            fresh = fresh or known is None or known.ask != ask
            if known is None or fresh:
                known = Exchange(ask=ask, told=answer(ask))
                keep(known)
            ask = search.send(known.told)
    except StopIteration as end:
        found: Found = end.value
        return found
