"""launch_or_roofline_limited: the launch or the hardware's peak sets the time, not the kernel's code."""

from __future__ import annotations

from gate.analysis import profiled
from gate.analysis.case import Case, Category


def rule(case: Case) -> Category | None:
    """A time at the launch floor or mostly between kernels, or a high share of the GPU's peak."""
    if case.at_floor:
        return Category(
            name="launch_or_roofline_limited",
            evidence=f"within reach of the launch floor; {case.behind}",
            likely_fix="fuse with its neighbours, or time it by slope to see the kernel",
        )
    if seen := profiled.of_time(case.profile, case.head.time_us):
        return Category(
            name="launch_or_roofline_limited",
            evidence=f"{seen}; {case.behind}",
            likely_fix="shorten the gaps between the kernels of a call, or fuse them",
        )
    share = case.peak_share
    if share is None or share < case.policy.classify.roofline_share:
        return None
    return Category(
        name="launch_or_roofline_limited",
        evidence=f"{share:.0%} of the GPU's peak; {case.behind}",
        likely_fix="little is left in this kernel: move fewer bytes",
    )
