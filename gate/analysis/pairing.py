"""What follows from the two arms of a row before any statistics: a settled verdict, or a pair to test."""

from __future__ import annotations

import msgspec

from gate.analysis.arm import Arm
from gate.model.decision import Verdict
from gate.model.outcome import AnyOutcome
from gate.model.policy import EnvironmentPolicy

# Head and base this many times apart, within 10%, are milliseconds against microseconds.
UNIT_RATIO = 1000.0


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict that needs no test. `hole`: the row leaves the run unmeasured; `required`: it counts for coverage."""

    verdict: Verdict
    reasons: tuple[str, ...]
    detail: str = ""
    hole: bool = False
    required: bool = True


def settle(*, base: Arm, head: Arm, environment: EnvironmentPolicy) -> Settled | None:
    """The verdict of a row whose arms cannot be compared as times or code, else None."""
    if head.state == "absent":
        return _head_absent(base)
    if head.state == "unusable":
        return _hole("not_comparable", head.reasons, head.detail)
    if head.state in ("failed", "incorrect"):
        return _head_broken(base, head)
    if head.state == "off":
        return _head_off(base, head)
    return _head_ok(base, head, environment)


def _hole(verdict: Verdict, reasons: tuple[str, ...], detail: str = "") -> Settled:
    return Settled(verdict=verdict, reasons=reasons, detail=detail, hole=True)


def _head_absent(base: Arm) -> Settled:
    if base.state == "absent":
        return _hole("not_run", ("not_run",))
    return _hole("missing", ("missing",))


def _head_broken(base: Arm, head: Arm) -> Settled:
    wrong = head.state == "incorrect"
    if base.state in ("failed", "incorrect"):
        return _hole("not_comparable", ("still_failing",), head.detail)
    if base.state == "absent":
        return _hole("not_comparable", ("wrong" if wrong else "fails", "no_baseline"), head.detail)
    verdict: Verdict = "newly_incorrect" if wrong else "newly_failed"
    return Settled(verdict=verdict, reasons=(verdict,), detail=head.detail)


def _head_off(base: Arm, head: Arm) -> Settled:
    assert head.outcome is not None
    status = head.outcome.benchmark_status
    if base.state == "ok":
        if status == "unsupported":
            return Settled(verdict="newly_failed", reasons=("newly_unsupported",), detail=head.detail)
        return _hole("missing", ("missing", status), head.detail)
    if status == "skipped":
        return _hole("not_run", ("skipped",), head.detail)
    return Settled(verdict="not_run", reasons=(status,), detail=head.detail, required=False)


def _head_ok(base: Arm, head: Arm, environment: EnvironmentPolicy) -> Settled | None:
    if base.state in ("absent", "off"):
        return Settled(verdict="new", reasons=("no_baseline",), required=False)
    if base.state == "unusable":
        return _hole("not_comparable", base.reasons, f"base: {base.detail}")
    if base.state in ("failed", "incorrect"):
        return Settled(verdict="fixed", reasons=("fixed",))
    assert base.outcome is not None and head.outcome is not None
    reason = mismatch(base.outcome, head.outcome, environment) or _units(base, head)
    return None if reason is None else _hole("not_comparable", (reason[0],), reason[1])


def mismatch(old: AnyOutcome, new: AnyOutcome, environment: EnvironmentPolicy) -> tuple[str, str] | None:
    """The reason code and detail of why two rows of one provider cannot be compared, whatever their times."""
    if old.control or new.control:
        return "shared_arm", "judge the candidate that the run measured on both sides, or measure this one as candidate"
    codegen = new.timing_method == "codegen"
    if codegen is not (old.timing_method == "codegen"):
        return "mixed_kinds", "one side was timed and the other holds machine code only"
    for field in environment.codegen_incomparable if codegen else environment.incomparable:
        was, now = getattr(old, field), getattr(new, field)
        if was != now:
            return "environment_mismatch", f"{field} was {was or 'unknown'} and is {now or 'unknown'}"
    if old.timing_method != new.timing_method:
        return "method_mismatch", f"base by {old.timing_method}, head by {new.timing_method}"
    if old.cache_state != new.cache_state:
        return "cache_mismatch", f"base {old.cache_state or 'unknown'}, head {new.cache_state or 'unknown'}"
    return None


def _units(base: Arm, head: Arm) -> tuple[str, str] | None:
    if base.time_us is None or head.time_us is None:
        return None
    ratio = head.time_us / base.time_us
    if 0.9 < max(ratio, 1 / ratio) / UNIT_RATIO < 1.1:
        return "unit_mismatch", "head and base differ by a factor of about 1000"
    return None
