"""The integrity checks: what makes a measured time unusable, each as a function from facts to a finding.

The checks are numbered 1 to 8, and each docstring says which one it is. A finding is a status, not a warning,
and its row leaves every aggregate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gate.replay.chips import Chip
from gate.replay.device import Comparison, KernelTime
from gate.replay.op import Tolerance

PROFILE_FROM_US = 20.0
PROFILE_RATIO = (0.8, 1.25)
# The sheet's peaks are not beaten, but a clock a little above the rated one is real.
PHYSICS_SLACK = 1.02
CANARY_DRIFT = 0.03
# The copy canary is recorded but not judged: on an H200 it reads 127 or 141 us in one and the same process while
# kernels' own times stay within 0.2%; memory that slows down shows in the control arms.
JUDGED_CANARIES = ("spin",)

# The findings that another arm's stray writes into the same memory could cause.
MEMORY_CODES = (
    "executed_in_capture",
    "unwritten",
    "nonfinite_output",
    "wrong_output",
    "wrong_form",
    "inputs_changed",
    "stale_output",
)

FAILED, INCORRECT = "failed", "incorrect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Why a row does not count: a stable `code`, the row's status, and one sentence with the numbers."""

    code: str
    status: str
    text: str

    def as_dict(self) -> dict[str, str]:
        """For the worker's reply."""
        return {"code": self.code, "status": self.status, "text": self.text}


class Ended(Exception):
    """A finding after which nothing more can be asked of the arm."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


def executed_in_capture(changed: Mapping[str, int]) -> Finding | None:
    """Check 1. `changed`: elements of each output or workspace that changed while the graph was only recorded."""
    touched = {name: count for name, count in changed.items() if count}
    if not touched:
        return None
    names = ", ".join(f"{name} (in {count} of its elements)" for name, count in touched.items())
    text = (
        f"the kernel ran during capture and wrote {names}: it launches on a stream of its own, so the graph misses it"
    )
    return Finding(code="executed_in_capture", status=FAILED, text=text)


def unwritten(name: str, *, untouched: int, total: int) -> Finding | None:
    """Check 2, first half. Elements that still hold the sentinel after a replay."""
    if untouched == 0:
        return None
    share = 100.0 * untouched / max(total, 1)
    text = f"the graph left {untouched} of {total} elements of {name} unwritten ({share:.1f}%)"
    return Finding(code="unwritten", status=INCORRECT, text=text)


def wrong_output(name: str, comparison: Comparison, tolerance: Tolerance) -> Finding | None:
    """Check 2, second half. Graph output against the fp32 reference, all ring copies together."""
    if comparison.nonfinite:
        text = f"{comparison.nonfinite} of {comparison.total} elements of {name} are not finite"
        return Finding(code="nonfinite_output", status=INCORRECT, text=text)
    if comparison.bad:
        text = (
            f"{comparison.bad} of {comparison.total} elements of {name} lie outside atol {tolerance.atol:g} + rtol "
            f"{tolerance.rtol:g}; largest error {comparison.max_abs:.3g}"
        )
        return Finding(code="wrong_output", status=INCORRECT, text=text)
    return None


def wrong_form(name: str, *, got: tuple[tuple[int, ...], str], want: tuple[tuple[int, ...], str]) -> Finding | None:
    """Check 2. An output of another dtype or shape than the op's."""
    if got == want:
        return None
    text = f"{name} is {got[1]} {list(got[0])}, the op's output is {want[1]} {list(want[0])}"
    return Finding(code="wrong_form", status=INCORRECT, text=text)


def inputs_changed(names: Sequence[str]) -> Finding | None:
    """Check 2. An in-place kernel computes something else on every lap of the ring."""
    if not names:
        return None
    text = f"the kernel wrote its own input {', '.join(names)}, which the op does not allow"
    return Finding(code="inputs_changed", status=INCORRECT, text=text)


def wrong_nodes(
    *, full: Sequence[str] | None, single: Sequence[str] | None, launches: int, eager: Sequence[KernelTime]
) -> Finding | None:
    """Check 3. The n-launch graph holds n times the kernels of one call, the same in every call, as many as eagerly.

    Where the runtime does not tell a graph's nodes the check says nothing: the replayed output still must be right.
    """
    if full is None or single is None:
        return None
    if not single:
        return Finding(code="empty_graph", status=FAILED, text="the graph of one call holds no kernel")
    if len(full) != launches * len(single):
        text = f"kernels in the graph: {len(full)} for {launches} x the call, {len(single)} for one call"
        return Finding(code="wrong_nodes", status=FAILED, text=text)
    if list(full) != list(single) * launches:
        return Finding(code="wrong_nodes", status=FAILED, text="the kernels in the graph change from call to call")
    if eager and len(eager) != len(single):
        text = f"kernels: {len(eager)} in one eager call, {len(single)} in the graph of one call"
        return Finding(code="wrong_nodes", status=FAILED, text=text)
    return None


def profile_disagrees(*, t_us: float, profiled_us: float | None) -> Finding | None:
    """Check 4. Graph time over the profiler's device time of one eager call, judged from 20 us on."""
    if profiled_us is None or profiled_us <= 0 or max(t_us, profiled_us) < PROFILE_FROM_US:
        return None
    ratio = t_us / profiled_us
    low, high = PROFILE_RATIO
    if low <= ratio <= high:
        return None
    text = f"graph time {t_us:.2f} us is {ratio:.2f} x the profiled {profiled_us:.2f} us (allowed {low} to {high})"
    return Finding(code="profile_disagrees", status=FAILED, text=text)


def breaks_physics(
    *, t_us: float, bytes_moved: float, flops: float, dtype: str, chip: Chip, cold: bool
) -> Finding | None:
    """Check 5. No time below bytes / peak bandwidth (cold rings only) or flops / dense peak."""
    bounds = []
    if cold and chip.bandwidth_gbps is not None:
        bounds.append(
            (bytes_moved / chip.bandwidth_gbps / 1e3, f"{bytes_moved:.0f} bytes at {chip.bandwidth_gbps:.0f} GB/s")
        )
    peak = chip.peak_tflops(dtype)
    if peak is not None:
        bounds.append((flops / peak / 1e6, f"{flops:.3g} flops at {peak:.0f} TFLOP/s"))
    for bound_us, what in bounds:
        if t_us * PHYSICS_SLACK < bound_us:
            text = f"{t_us:.3f} us is less than the {bound_us:.3f} us that {what} take"
            return Finding(code="physics", status=FAILED, text=text)
    return None


def stale_output(finding: Finding | None) -> Finding | None:
    """Check 6. A copy whose inputs were replaced after timing must give the new result."""
    if finding is None:
        return None
    text = f"with fresh inputs after timing, {finding.text}: the output is cached between calls"
    return Finding(code="stale_output", status=INCORRECT, text=text)


def canary_drift(first: Mapping[str, float], now: Mapping[str, float], limit: float = CANARY_DRIFT) -> str | None:
    """Check 7. What drifted by more than `limit` (a fraction) since the session began, in words, or None."""
    for name in JUDGED_CANARIES:
        before, after = first.get(name, 0.0), now.get(name)
        if after is not None and before > 0 and abs(after / before - 1.0) > limit:
            return f"the {name} canary went from {before:.1f} to {after:.1f} us ({100 * (after / before - 1):+.1f}%)"
    return None


def require_finite(values: Sequence[float]) -> None:
    """Check 8, at once: no ring can be planned for, and no mean taken of, what is no number. Raises Ended."""
    bad = [value for value in values if not math.isfinite(value)]
    if bad:
        text = f"times that are no numbers: {len(bad)} of {len(values)}, such as {bad[0]}"
        raise Ended(Finding(code="invalid_time", status=FAILED, text=text))


def invalid_time(values: Sequence[float]) -> Finding | None:
    """Check 8. Non-finite, zero or negative times."""
    bad = [value for value in values if not math.isfinite(value) or value <= 0]
    if not values:
        return Finding(code="invalid_time", status=FAILED, text="no time was measured")
    if bad:
        text = f"times that are not positive: {len(bad)} of {len(values)}, such as {bad[0]}"
        return Finding(code="invalid_time", status=FAILED, text=text)
    return None
