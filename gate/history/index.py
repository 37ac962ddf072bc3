"""Knows how many series are seen as one line: each against its own median, averaged over those of a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gate.history.series import Timeline
from gate.model.history import Index

# Fewer series are shown by themselves.
LEAST_SERIES = 2


def indices(timeline: Timeline, *, last: int | None = None) -> Iterator[Index]:
    """One index for each op, provider and contract that has at least two series, in that order.

    Of each series the `last` runs are looked at.
    """
    groups: dict[tuple[str, str, str], list[int]] = {}
    for index, one in enumerate(timeline.series):
        groups.setdefault((one.op_type, one.provider, one.contract), []).append(index)
    for (op_type, provider, contract), members in sorted(groups.items()):
        if len(members) < LEAST_SERIES:
            continue
        total, count = np.zeros(len(timeline.runs)), np.zeros(len(timeline.runs), dtype=np.int64)
        for member in members:
            numbers, logs = timeline.part(member, last)
            total[numbers] += logs - np.median(logs)
            count[numbers] += 1
        present = np.flatnonzero(count)
        yield Index(
            op_type=op_type,
            provider=provider,
            contract=contract,
            at=tuple(timeline.runs[number].at for number in present.tolist()),
            ratio=tuple(np.exp(total[present] / count[present]).tolist()),
            n=tuple(count[present].tolist()),
        )
