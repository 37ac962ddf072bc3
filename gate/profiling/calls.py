"""Which dispatches of a trace belong to the measured calls: the tail of it that repeats."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from gate.model.text import counted
from gate.profiling.trace import Dispatch

LONGEST_CALL = 256
FEWEST_REPEATS = 3


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """`measured` are the dispatches of `calls` calls, `warmup` those of the calls before, `setup` all others."""

    measured: tuple[Dispatch, ...]
    setup: tuple[Dispatch, ...]
    warmup: tuple[Dispatch, ...] = ()
    calls: int | None = None
    notes: tuple[str, ...] = ()


def split(dispatches: Sequence[Dispatch], *, calls: int | None, warmup: int = 0, kernel: str | None = None) -> Calls:
    """Tells calls from what came before them.

    `calls` and `warmup` are how many the profiled program made last, if known; `kernel` is a pattern for the names
    that belong to a call. Without any of them the longest repeating tail of the trace counts, which real calls are:
    the same kernels in the same order.
    """
    if kernel is not None:
        return _by_name(dispatches, re.compile(kernel), calls=calls, warmup=warmup)
    names = [one.name for one in dispatches]
    if calls is not None:
        period = _period_of(names, repeats=calls + warmup)
        if period:
            return _cut(dispatches, period=period, calls=calls, warmup=warmup, notes=())
        period = _period_of(names, repeats=calls) if warmup else 0
        if period:
            note = "the warm-up calls ran other kernels than the measured ones; they count as setup"
            return _cut(dispatches, period=period, calls=calls, warmup=0, notes=(note,))
        told = f"the trace does not end in {counted(calls + warmup, 'equal call')}"
        return _by_count(dispatches, told, calls=calls)
    period, covered = _longest_tail(names)
    if period and covered >= FEWEST_REPEATS:
        note = f"nobody said how many calls there were: the {covered} equal ones at the end are taken for them"
        return _cut(dispatches, period=period, calls=covered, warmup=0, notes=(note,))
    return _by_count(dispatches, "no part of the trace repeats", calls=None)


def _period_of(names: Sequence[str], *, repeats: int) -> int:
    """The most dispatches a call can have so that the trace ends in that many equal calls, or 0."""
    for period in range(min(len(names) // max(repeats, 1), LONGEST_CALL), 0, -1):
        tail = names[len(names) - period * repeats :]
        if tail[:-period] == tail[period:]:
            return period
    return 0


def _longest_tail(names: Sequence[str]) -> tuple[int, int]:
    """The period that covers most of the trace's end, the shortest of equals, and how often it repeats."""
    best = (0, 0)
    for period in range(1, min(len(names) // FEWEST_REPEATS, LONGEST_CALL) + 1):
        if best[0] and period % best[0] == 0:
            continue  # What repeats by a part of it repeats by itself, and no further.
        same = 0
        while same < len(names) - period and names[-1 - same] == names[-1 - same - period]:
            same += 1
        repeats = same // period + 1
        if repeats >= FEWEST_REPEATS and repeats * period > best[0] * best[1]:
            best = (period, repeats)
    return best


def _cut(dispatches: Sequence[Dispatch], *, period: int, calls: int, warmup: int, notes: tuple[str, ...]) -> Calls:
    start = len(dispatches) - period * (calls + warmup)
    warm = start + period * warmup
    return Calls(
        measured=tuple(dispatches[warm:]),
        warmup=tuple(dispatches[start:warm]),
        setup=tuple(dispatches[:start]),
        calls=calls,
        notes=notes,
    )


def _by_name(dispatches: Sequence[Dispatch], pattern: re.Pattern[str], *, calls: int | None, warmup: int) -> Calls:
    chosen = [one for one in dispatches if pattern.search(one.name)]
    rest = tuple(one for one in dispatches if not pattern.search(one.name))
    total = (calls or 0) + warmup
    if calls is not None and chosen and len(chosen) % total == 0:
        warm = len(chosen) // total * warmup
        return Calls(measured=tuple(chosen[warm:]), warmup=tuple(chosen[:warm]), setup=rest, calls=calls)
    match = counted(len(chosen), "dispatch matches", "dispatches match")
    note = () if calls is None else (f"{match}, which is no multiple of {counted(total, 'call')}",)
    return Calls(measured=tuple(chosen), setup=rest, calls=None, notes=note)


def _by_count(dispatches: Sequence[Dispatch], told: str, *, calls: int | None) -> Calls:
    """What runs about as often as the most frequent kernel is taken for the calls."""
    counts = Counter(one.name for one in dispatches)
    often = calls if calls is not None else max(counts.values(), default=1)
    chosen = {name for name, count in counts.items() if count >= often} or set(counts)
    note = f"{told}; kernels that ran {often} times or more are taken for the calls', fills and copies among them too"
    return Calls(
        measured=tuple(one for one in dispatches if one.name in chosen),
        setup=tuple(one for one in dispatches if one.name not in chosen),
        notes=(note,),
    )
