"""Whether the declared design can fail at all: what its last look could show of a quiet row among so many."""

from __future__ import annotations

import math

import numpy as np

from gate.analysis.blocks import EFFICIENCY, TRIM, row_alpha
from gate.analysis.noise import AA_PRIOR_DF
from gate.analysis.student import quantile
from gate.model.policy import Policy
from gate.model.text import counted

MOST_BLOCKS = 64
# ABBA: each arm is visited twice a block.
VISITS = 2


def least_effect(policy: Policy, *, blocks: int, n_tests: int) -> float:
    """The smallest slowdown (a fraction) that a row of the least noise shows at the policy's power."""
    cut = int(TRIM * blocks) if blocks >= 5 else 0
    df = np.array([blocks - 2 * cut - 1 + AA_PRIOR_DF])
    variance, share = policy.noise.min_sd**2, policy.noise.process_share
    process = max(policy.noise.process_sd**2, share / (1 - share) * variance * VISITS)
    se = math.sqrt(variance / (EFFICIENCY * blocks) + process)
    steps = quantile(1 - row_alpha(policy, n_tests), df) + quantile(policy.screen.power, df)
    return math.expm1(min(math.log1p(policy.thresholds.slower) + float(steps[0]) * se, 700.0))


def refusal(policy: Policy, *, n_tests: int) -> str | None:
    """Why the design cannot fail, with the number of blocks it would need; None if it can.

    It must be able to show what the policy calls not slower, else no row is ever anything but inconclusive.
    """
    limit, last = policy.thresholds.not_slower, max(policy.screen.looks)
    found = least_effect(policy, blocks=last, n_tests=n_tests)
    if found <= limit:
        return None
    enough = (k for k in range(last + 1, MOST_BLOCKS + 1) if least_effect(policy, blocks=k, n_tests=n_tests) <= limit)
    needed = next(enough, None)
    remedy = f"{needed} blocks would do" if needed else "no number of blocks would do at this noise and level"
    return (
        f"{counted(last, 'block')} over {counted(n_tests, 'row')} show no slowdown below {found:.0%}, "
        f"the policy asks for {limit:.0%}; {remedy}"
    )
