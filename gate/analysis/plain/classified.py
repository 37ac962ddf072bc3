"""The category of plain shapes: a formatted sentence for those that are ok, the rules for the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gate.analysis.arm import Arm
from gate.analysis.best import Best
from gate.analysis.case import Case, Category
from gate.analysis.classify import classify
from gate.analysis.plain.group import Group
from gate.analysis.plain.sides import Side
from gate.analysis.rows import is_hot
from gate.model.policy import Policy
from gate.model.shape import Shape


def classified(
    group: Group, shapes: Sequence[Shape], *, head: Side, policy: Policy
) -> list[tuple[Category | None, bool, bool]]:
    """The category of each shape, whether it is hot, and whether to profile it; rows that are ok need no look."""
    numbers = np.arange(len(group.index))
    rows = np.stack([other.head for other in group.others])[group.best, numbers].tolist()
    rival_us = np.stack([other.head_us for other in group.others])[group.best, numbers].tolist()
    own, own_us = group.candidate.head.tolist(), group.candidate.head_us.tolist()
    names = [group.rivals[number] for number in group.best.tolist()]
    speedups, limits = group.speedup.tolist(), policy.classify
    result: list[tuple[Category | None, bool, bool]] = []
    for number, shape in enumerate(shapes):
        hot, speedup = is_hot(shape, policy), speedups[number]
        if speedup >= limits.ok:
            words = f"{own_us[number]:.4g} us against {rival_us[number]:.4g} us of {names[number]} ({speedup:.2f}x)"
            result.append((Category(name="ok", evidence=words), hot, hot and speedup < limits.profile_below))
            continue
        rival = Arm(state="ok", outcome=head.columns.row(rows[number]), time_us=rival_us[number])
        case = Case(
            shape=shape,
            head=Arm(state="ok", outcome=head.columns.row(own[number]), time_us=own_us[number]),
            best=Best(provider=names[number], speedup=speedup, baseline=rival),
            policy=policy,
        )
        found = classify(case, hot=hot)
        result.append((found.category, hot, found.profile))
    return result
