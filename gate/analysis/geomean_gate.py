"""The test of many rows together: a small slowdown everywhere that no single row can show."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gate.analysis.cells import Cell
from gate.analysis.rows import Row
from gate.analysis.student import quantile
from gate.model.decision import GeomeanTest
from gate.model.policy import Policy


def tests(cells: Sequence[Cell], rows: Sequence[Row], policy: Policy) -> tuple[GeomeanTest, ...]:
    """The test per op and overall (`all`), over rows measured as paired blocks; waived rows are left out."""
    groups: dict[str, list[Row]] = {}
    for cell, row in zip(cells, rows, strict=True):
        if row.estimate is not None and row.estimate.kind == "blocks" and row.verdict != "waived":
            groups.setdefault(cell.shape.op_type, []).append(row)
    overall = [row for members in groups.values() for row in members]
    named = sorted(groups.items()) + ([("all", overall)] if len(groups) > 1 else [])
    return tuple(_test(name, members, policy) for name, members in named if len(members) >= policy.geomean.min_rows)


def _test(name: str, rows: Sequence[Row], policy: Policy) -> GeomeanTest:
    logs = np.array([row.estimate.log_ratio for row in rows if row.estimate is not None])
    own = np.array([row.estimate.se for row in rows if row.estimate is not None])
    n = len(logs)
    mean = math.fsum(logs.tolist()) / n
    # The larger of what the rows say of themselves and what their scatter says; the session's own offset on top.
    inside = math.fsum((own**2).tolist()) / n**2
    scatter = math.fsum(((logs - mean) ** 2).tolist()) / (n - 1) / n
    se = math.sqrt(max(inside, scatter) + policy.noise.process_sd**2 / n)
    low = mean - float(quantile(1 - policy.geomean.alpha, np.array([n - 1.0]))[0]) * se
    return GeomeanTest(
        name=name, n=n, ratio=math.exp(mean), low=math.exp(low), limit=1 + policy.geomean.limit,
        slower=low > 0 and mean > math.log1p(policy.geomean.limit),
    )  # fmt: skip
