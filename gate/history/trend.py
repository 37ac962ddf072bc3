"""What is said of each series: its noise, its lasting changes, whether others moved too, where its contract ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gate.history import changes
from gate.history.series import Timeline
from gate.model.history import CONTRACT, Break, Change, Series, SeriesTrend

# The machine changed where the other providers moved the same way by at least this share of the change.
SHARED = 0.5
LAST = 400


def trends(timeline: Timeline, *, last: int = LAST, least_effect: float = changes.LEAST_EFFECT) -> list[SeriesTrend]:
    """Every series that has a point, of which the `last` runs are looked at.

    Changed ones first, the kernels' before the machine's, and in both the slower ones first.
    """
    beside = _beside(timeline.series)
    gone_over = _breaks(timeline)
    found = []
    for index, series in enumerate(timeline.series):
        numbers, logs = timeline.part(index, last)
        split = changes.splits(logs, least_effect=least_effect)
        ends = [0, *(one.at for one in split), len(logs)]
        told = [
            _change(timeline, one, numbers=numbers, around=ends[at : at + 3], others=beside[index])
            for at, one in enumerate(split)
        ]
        found.append(
            SeriesTrend(
                series=series,
                runs=int(timeline.starts[index + 1] - timeline.starts[index]),
                first=timeline.runs[int(timeline.part(index)[0][0])].at,
                last=timeline.runs[int(numbers[-1])].at,
                first_us=math.exp(float(timeline.part(index)[1][0])),
                last_us=math.exp(float(logs[-1])),
                noise=changes.noise(_flat(logs, split)),
                changes=tuple(told),
                breaks=gone_over.get(index, ()),
                left_out=timeline.doubled[index],
            )
        )
    return sorted(found, key=_worst_first)


def _worst_first(one: SeriesTrend) -> tuple[Any, ...]:
    newest = one.changes[-1] if one.changes else None
    series, ratio = one.series, newest.ratio if newest is not None else 1.0
    return (
        newest is None,
        newest is not None and newest.machine,
        -ratio,
        series.op_type,
        series.shape_id,
        series.provider,
        series.contract,
    )


def _flat(logs: NDArray[np.float64], split: Sequence[changes.Split]) -> NDArray[np.float64]:
    """The series without its changes, so that they do not count as noise."""
    flat = logs.copy()
    for one in split:
        flat[one.at :] -= one.log_ratio
    return flat


def _change(
    timeline: Timeline,
    split: changes.Split,
    *,
    numbers: NDArray[np.int64],
    around: Sequence[int],
    others: Sequence[int],
) -> Change:
    """The change in words: `around` are start, place and end of its two segments among the runs `numbers`."""
    start, at, end = around
    after, before = (timeline.runs[int(numbers[place])] for place in (at, at - 1))
    moved = _moved(timeline, others, first=int(numbers[start]), at=int(numbers[at]), last=int(numbers[end - 1]))
    own = split.log_ratio
    return Change(
        at=after.at,
        run=after.name,
        commit=timeline.commits.get(after.key, ""),
        before=timeline.commits.get(before.key, ""),
        ratio=math.exp(own),
        runs_since=len(numbers) - at,
        p=split.p,
        others=None if moved is None else math.exp(moved),
        machine=moved is not None and moved * own > 0 and abs(moved) >= SHARED * abs(own),
    )


def _beside(series: Sequence[Series]) -> list[tuple[int, ...]]:
    """For each series those of other providers on the same shape under the same contract."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, one in enumerate(series):
        groups.setdefault((one.op_type, one.shape_id, one.contract), []).append(index)
    found: list[tuple[int, ...]] = [()] * len(series)
    for group in groups.values():
        for index in group:
            found[index] = tuple(other for other in group if other != index)
    return found


def _moved(timeline: Timeline, others: Iterable[int], *, first: int, at: int, last: int) -> float | None:
    """The median log ratio of other series: runs `at` to `last` over runs `first` to before `at`; None without any."""
    ratios = []
    for index in others:
        numbers, logs = timeline.part(index)
        begin, middle, end = np.searchsorted(numbers, (first, at, last + 1))
        if min(middle - begin, end - middle) >= changes.LEAST_RUNS:
            ratios.append(float(np.median(logs[middle:end]) - np.median(logs[begin:middle])))
    return float(np.median(ratios)) if ratios else None


def _breaks(timeline: Timeline) -> dict[int, tuple[Break, ...]]:
    """Series that took the place of one of another contract; series that ran side by side took nobody's place."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for index, one in enumerate(timeline.series):
        groups.setdefault((one.op_type, one.shape_id, one.provider), []).append(index)
    found: dict[int, tuple[Break, ...]] = {}
    for group in groups.values():
        spans = {index: timeline.part(index)[0] for index in group} if len(group) > 1 else {}
        for index, numbers in spans.items():
            earlier = [(int(span[-1]), other) for other, span in spans.items() if span[-1] < numbers[0]]
            if earlier:
                begun = timeline.runs[int(numbers[0])].at
                found[index] = (_break(timeline.series[max(earlier)[1]], timeline.series[index], at=begun),)
    return found


def _break(old: Series, new: Series, *, at: datetime) -> Break:
    fields = tuple(name for name in CONTRACT if getattr(old, name) != getattr(new, name))
    before, after = (", ".join(getattr(one, name) or "unknown" for name in fields) for one in (old, new))
    return Break(at=at, fields=fields, before=before, after=after)
