"""What one arm (one provider on one shape in one run) amounts to: a usable time, or why there is none."""

from __future__ import annotations

import math
from itertools import chain
from typing import Literal

import msgspec

from gate.analysis.book import Book
from gate.model.outcome import AnyOutcome

State = Literal["ok", "failed", "incorrect", "off", "absent", "unusable"]

# Times of one row that differ by more than this factor cannot share a unit (ms against us is 1000).
SAME_UNIT = 3.0
# A row's median lies among its own visits, up to what rounding and a left-out visit do.
AMONG_VISITS = 1.1


class Arm(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`time_us` is set exactly when `state` is ok and the row was timed (a codegen row has no time)."""

    state: State
    outcome: AnyOutcome | None = None
    time_us: float | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: str = ""

    @property
    def timed(self) -> bool:
        """Whether there is a time to compare."""
        return self.time_us is not None


ABSENT = Arm(state="absent")
REFUSED = Arm(state="unusable", reasons=("refused",), detail="the row was refused while reading")
_STATES: dict[str, State] = {
    "ok": "ok",
    "failed": "failed",
    "oom": "failed",
    "incorrect": "incorrect",
    "unsupported": "off",
    "skipped": "off",
    "not_configured": "off",
}


def arm(book: Book, *, shape_id: str, provider: str) -> Arm:
    """The arm of an identity: duplicates never last-wins, invalid times never ok (rules of the results contract)."""
    outcome = book.get(shape_id, provider)
    refused = book.has_refused and book.is_refused(shape_id, provider)
    if outcome is None:
        return REFUSED if refused else ABSENT
    if book.extra and (shape_id, provider) in book.extra:
        return _of_several(book.extra[shape_id, provider])
    result = of_outcome(outcome)
    return msgspec.structs.replace(result, notes=("refused_partly",)) if refused else result


def _of_several(outcomes: tuple[AnyOutcome, ...]) -> Arm:
    good = [outcome for outcome in outcomes if outcome.benchmark_status == "ok"]
    if len(good) > 1:
        return Arm(state="unusable", reasons=("duplicate",), detail=f"{len(good)} ok rows of one identity")
    chosen = of_outcome(good[0] if good else outcomes[0])
    return msgspec.structs.replace(chosen, notes=(*chosen.notes, "duplicate"))


def of_outcome(outcome: AnyOutcome) -> Arm:
    """The arm of a single row."""
    state = _STATES[outcome.benchmark_status]
    if state == "ok" and outcome.correct is False:
        state = "incorrect"
    if state == "ok" and (time := _plain_time(outcome)) is not None:
        return Arm(state="ok", outcome=outcome, time_us=time)
    if state != "ok":
        return Arm(state=state, outcome=outcome, detail=_why(outcome))
    if outcome.timing_method == "codegen":
        return Arm(state="ok", outcome=outcome)
    fault = _fault(outcome)
    if fault is not None:
        return Arm(state="unusable", outcome=outcome, reasons=(fault[0],), detail=fault[1])
    return Arm(state="ok", outcome=outcome, time_us=outcome.median_us, notes=_notes(outcome))


def _why(outcome: AnyOutcome) -> str:
    return outcome.correctness_error or outcome.skip_reason or ""


def _plain_time(outcome: AnyOutcome) -> float | None:
    """The time of a row that has nothing to remark, found with few steps: most rows are such."""
    time, low, high = outcome.median_us, outcome.p10_us, outcome.p90_us
    if time is None or outcome.stable is False or outcome.correct is None:
        return None
    if outcome.timing_method is None or outcome.timing_method == "codegen":
        return None
    if outcome.repeat_iters is not None and outcome.repeat_iters < 1:
        return None
    if not 0.0 < time < math.inf or (low is not None and low > time) or (high is not None and high < time):
        return None
    return time if outcome.blocks_us is None or _plain_blocks(outcome.blocks_us, time) else None


def _plain_blocks(blocks: tuple[tuple[float, ...], ...], time: float) -> bool:
    """Whether blocks are all of valid visits, close enough to each other and to the row's time to need no look."""
    visits = list(chain.from_iterable(blocks))
    if not visits or not all(blocks):
        return False
    low, high = min(visits), max(visits)
    # A visit that is not a number makes the sum none either.
    return low > 0.0 and sum(visits) < math.inf and high <= 5 * low and low <= time <= high


def _fault(outcome: AnyOutcome) -> tuple[str, str] | None:
    """The reason code and detail that make an ok row's time unusable."""
    time = outcome.median_us
    if not _valid(time):
        return "invalid_time", f"median_us is {_show(time)}"
    blocks = outcome.blocks_us
    if blocks is not None and not all(block and all(map(_valid, block)) for block in blocks):
        return "invalid_time", "blocks_us holds an empty block or an invalid time"
    if outcome.correct is None:
        return "not_verified", "correct is null"
    if outcome.timing_method is None:
        return "method_unknown", "timing_method is null"
    if outcome.repeat_iters is not None and outcome.repeat_iters < 1:
        return "not_repeated", f"repeat_iters is {outcome.repeat_iters}"
    assert time is not None
    return _unit_fault(outcome, time)


def _unit_fault(outcome: AnyOutcome, time: float) -> tuple[str, str] | None:
    low, high, blocks = outcome.p10_us, outcome.p90_us, outcome.blocks_us
    if low is not None and high is not None and not low / SAME_UNIT <= time <= high * SAME_UNIT:
        return "unit_mismatch", f"median_us {time:g} is far outside p10_us {_show(low)} to p90_us {_show(high)}"
    if blocks:
        visits = sorted(visit for block in blocks for visit in block)
        middle = visits[len(visits) // 2]
        if not middle / 10 <= time <= middle * 10:
            return "unit_mismatch", f"median_us {time:g} is far from blocks_us ({middle:g})"
        if not visits[0] / AMONG_VISITS <= time <= visits[-1] * AMONG_VISITS:
            span = f"{visits[0]:g} to {visits[-1]:g}"
            return "blocks_disagree", f"median_us {time:g} is not among its own blocks_us ({span})"
    return None


def _valid(value: float | None) -> bool:
    return value is not None and 0.0 < value < math.inf


def _show(value: float | None) -> str:
    if value is None:
        return "absent"
    return f"{value:g}" if math.isfinite(value) else "not a finite number"


def _notes(outcome: AnyOutcome) -> tuple[str, ...]:
    return ("unstable",) if outcome.stable is False else ()
