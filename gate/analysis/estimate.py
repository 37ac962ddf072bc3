"""What a test of one pair yields, whichever way the pair was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from gate.analysis.arm import Arm
from gate.model.policy import Policy
from gate.model.shape import Shape


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two comparable, timed arms of one shape. `ceiling` is the slowdown that the policy accepts for the row."""

    shape: Shape
    base: Arm
    head: Arm
    ceiling: float

    @property
    def same_session(self) -> bool:
        """Whether both arms were measured interleaved in one session."""
        assert self.base.outcome is not None and self.head.outcome is not None
        return self.base.outcome.session_id is not None and self.base.outcome.session_id == self.head.outcome.session_id


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """log(head/base) of a pair with everything a verdict needs.

    `p_slow`, `p_fast`: one-sided p-values against the indifference zone (blocks only); `p_alone`: as `p_slow`, allowing
    for what few processes cannot show. `within`, `limit`: the noise
    floor in log units (summaries only). `lo`, `hi`: the shown interval. `mde_log`: what the row could have shown.
    `least`, `most`: log(head/base) of its fastest and slowest block, `slower`: how many blocks lie above 0.
    """

    kind: Literal["blocks", "summary"]
    log_ratio: float
    lo: float
    hi: float
    mde_log: float
    se: float
    p_slow: float = 1.0
    p_alone: float = 1.0
    p_fast: float = 1.0
    within: float = 0.0
    limit: float = 0.0
    shift: float = 0.0
    n_blocks: int = 0
    least: float = 0.0
    most: float = 0.0
    slower: int = 0
    notes: tuple[str, ...] = ()


def stratum(time_us: float, policy: Policy) -> int:
    """The time stratum of a kernel, 0 for the shortest."""
    return int(np.searchsorted(np.asarray(policy.noise.strata_us), time_us, side="left"))


def strata(times_us: Sequence[float], policy: Policy) -> list[int]:
    """As `stratum`, for many times at once."""
    found: list[int] = np.searchsorted(np.asarray(policy.noise.strata_us), np.asarray(times_us), side="left").tolist()
    return found
