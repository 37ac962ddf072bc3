"""The verdict of a row whose machine code was compared and no time taken."""

from __future__ import annotations

from gate.analysis.pairing import Settled
from gate.model.decision import CodeEvidence, Verdict
from gate.model.outcome import AnyOutcome
from gate.model.policy import CodegenPolicy

_WARN: dict[str, Verdict] = {"inconclusive": "inconclusive", "block": "regressed", "unchanged": "unchanged"}


def rule(*, base: AnyOutcome, head: AnyOutcome, code: CodeEvidence | None, policy: CodegenPolicy) -> Settled:
    """The verdict that the code comparison gives; both sides compiled."""
    if code is None:
        return _by_hash(base, head)
    detail = code.findings[0] if code.findings else ""
    if code.verdict == "fail":
        return Settled(verdict="regressed", reasons=("codegen_fail",), detail=detail)
    if code.verdict == "warn":
        return Settled(verdict=_WARN[policy.warn], reasons=("codegen_warn",), detail=detail)
    if code.verdict == "same":
        return Settled(verdict="unchanged", reasons=("same_code",))
    if code.verdict == "info":
        return Settled(verdict="unchanged", reasons=("code_differs",), detail=detail)
    if code.verdict == "new":
        return Settled(verdict="new", reasons=("no_baseline",), required=False)
    if code.verdict == "fixed":
        return Settled(verdict="fixed", reasons=("fixed",), detail=detail)
    return Settled(verdict="missing", reasons=("missing",), detail=detail, hole=True)


def _by_hash(base: AnyOutcome, head: AnyOutcome) -> Settled:
    if base.isa_sha is not None and base.isa_sha == head.isa_sha:
        return Settled(verdict="unchanged", reasons=("same_code",))
    return Settled(verdict="inconclusive", reasons=("code_unjudged",))
