"""How the times of two runs or baselines stand to each other, row by row; it judges nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from gate.model.outcome import Outcome


def usable(row: Outcome) -> bool:
    """Whether a row holds a time of a checked output, and none that no kernel can take."""
    if row.benchmark_status != "ok" or row.correct is not True or row.timing_method in (None, "codegen"):
        return False
    times = chain([row.median_us], *(row.blocks_us or ()))
    return all(time is not None and 0.0 < time < math.inf for time in times)


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """One (shape, provider) of two baselines: `ratio` is the second time over the first, null with the reason why."""

    shape_id: str
    provider: str
    op_type: str | None
    first_us: float | None
    second_us: float | None
    ratio: float | None
    why: str = ""


def ratios(first: Sequence[Outcome], second: Sequence[Outcome]) -> list[Ratio]:
    """Every (shape, provider) that either side holds: those that cannot be compared, then the slowest first.

    Rows that are switched off or declared unsupported are no measurement and count as not there.
    """
    before, after = _by_identity(first), _by_identity(second)
    found = [_ratio(before.get(key, []), after.get(key, [])) for key in before.keys() | after.keys()]
    return sorted(found, key=lambda one: (one.ratio is not None, -(one.ratio or 0.0), one.shape_id, one.provider))


def _by_identity(rows: Iterable[Outcome]) -> Mapping[tuple[str, str], list[Outcome]]:
    found: dict[tuple[str, str], list[Outcome]] = {}
    for row in rows:
        if row.benchmark_status not in ("not_configured", "unsupported"):
            found.setdefault((row.shape_id, row.provider), []).append(row)
    return found


def _ratio(first: list[Outcome], second: list[Outcome]) -> Ratio:
    known = (first or second)[0]
    was, now = _only_time(first), _only_time(second)
    why = _why_not(was, now, len(first), len(second))
    before, after = (None if row is None else row.median_us for row in (was, now))
    return Ratio(
        shape_id=known.shape_id,
        provider=known.provider,
        op_type=known.op_type,
        first_us=before,
        second_us=after,
        ratio=None if why or before is None or after is None else after / before,
        why=why,
    )


def _only_time(rows: list[Outcome]) -> Outcome | None:
    good = [row for row in rows if usable(row)]
    return good[0] if len(good) == 1 else None


def _why_not(was: Outcome | None, now: Outcome | None, rows_before: int, rows_after: int) -> str:
    for side, row, rows in (("first", was, rows_before), ("second", now, rows_after)):
        if row is None:
            return f"no time in the {side}" if rows else f"not in the {side}"
    assert was is not None and now is not None
    for name in ("gpu", "timing_method", "cache_state"):
        before, after = getattr(was, name), getattr(now, name)
        if before != after:
            return f"{name} {before or 'unknown'} against {after or 'unknown'}"
    return ""
