"""From all findings to one outcome: pass, block or no verdict, the decision word, and the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from gate.analysis import standings
from gate.model.decision import (
    Coverage,
    DecisionWord,
    GateOutcome,
    Geomean,
    GeomeanTest,
    Headline,
    RowFinding,
)
from gate.model.policy import Policy
from gate.model.shape import UNREAL_STAGES

BLOCKING = frozenset({"regressed", "newly_failed", "newly_incorrect"})
MEASURED = frozenset({*standings.COMPARED, "newly_failed", "newly_incorrect", "fixed"})
BROKEN = frozenset({"newly_failed", "newly_incorrect"})
# Above this share of rows whose best baseline is doubtful, a promotion is at most one with guardrails.
DOUBTFUL_SHARE = 0.5
DOUBTS = frozenset({"reference_only", "unmatched_baseline"})


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the decision needs to know beyond the rows."""

    codegen: bool
    ledger_refused: bool
    rows_refused: bool
    mixed_kinds: bool
    base_empty: bool
    head_empty: bool
    cannot_fail: bool
    absent_baselines: bool


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a decision and why; `standing` is the geomean over real rows that the word rests on."""

    gate: GateOutcome
    decision: DecisionWord
    headline: Headline
    reasons: tuple[str, ...]
    standing: Geomean


def coverage(counts: Mapping[str, int], *, required: int, policy: Policy) -> Coverage:
    """How many rows had to be compared, were, and have a clear verdict; `counts` by verdict."""
    measured = sum(counts.get(verdict, 0) for verdict in MEASURED)
    judged = measured - counts.get("inconclusive", 0)
    return Coverage(
        required=required,
        judged=judged,
        measured=measured,
        share=measured / required if required else 0.0,
        required_share=policy.coverage.measured,
        conclusive_share=judged / measured if measured else 0.0,
        required_conclusive_share=policy.coverage.conclusive,
    )


def decide(
    findings: Sequence[RowFinding],
    *,
    cover: Coverage,
    tests: Sequence[GeomeanTest],
    facts: Facts,
    policy: Policy,
) -> Conclusion:
    """The outcome of a run. One confirmed regression blocks; anything unmeasured is never green."""
    gaps = _gaps(cover, facts, some_new=any(finding.verdict == "new" for finding in findings))
    if any("awaits_confirmation" in finding.reasons for finding in findings):
        gaps.append("suspects_unconfirmed")
    gaps += [gap for gap in _op_gaps(findings, policy) if gap not in gaps]
    blockers = _blockers(findings, tests)
    gate: GateOutcome = (
        "no_verdict" if facts.ledger_refused else "block" if blockers else "no_verdict" if gaps else "pass"
    )
    real = [finding for finding in findings if finding.stage not in UNREAL_STAGES]
    standing = standings.of_rows(real)
    word, why = _word(gate, findings, cover=cover, facts=facts, policy=policy, standing=standing)
    reasons = dict.fromkeys((*blockers, *gaps, *why)) or {"clean": None}
    return Conclusion(
        gate=gate, decision=word, headline=_headline(gate, word), reasons=tuple(reasons), standing=standing
    )


def _gaps(cover: Coverage, facts: Facts, *, some_new: bool) -> list[str]:
    gaps = []
    if facts.ledger_refused:
        gaps.append("ledger_refused")
    if facts.rows_refused:
        gaps.append("refused_rows")
    if facts.mixed_kinds:
        gaps.append("mixed_kinds")
    if facts.cannot_fail:
        gaps.append("cannot_fail")
    if cover.measured == 0:
        gaps.append(_nothing(facts, some_new=some_new))
    elif cover.share < cover.required_share:
        gaps.append("coverage")
    if cover.measured and cover.conclusive_share < cover.required_conclusive_share:
        gaps.append("mostly_inconclusive")
    return gaps


def _nothing(facts: Facts, *, some_new: bool) -> str:
    """Why no row was compared. A baseline would help only rows that ran."""
    if facts.head_empty:
        return "nothing_measured"
    if facts.base_empty:
        return "first_run" if some_new else "nothing_ran"
    return "nothing_compared"


def _op_gaps(findings: Sequence[RowFinding], policy: Policy) -> list[str]:
    """What holds for one op alone: a large run must not drown an op that is unclear or has lost its baseline."""
    counts: dict[str, Counter[str]] = {}
    for finding in findings:
        counts.setdefault(finding.op_type, Counter())[finding.verdict] += 1
    gaps = set()
    for of_op in counts.values():
        measured = sum(of_op[verdict] for verdict in MEASURED)
        if measured and measured - of_op["inconclusive"] < policy.coverage.conclusive * measured:
            gaps.add("mostly_inconclusive")
        if measured and of_op["new"] > policy.coverage.new * (of_op["new"] + measured):
            gaps.add("mostly_new")
    return sorted(gaps)


def _blockers(findings: Sequence[RowFinding], tests: Sequence[GeomeanTest]) -> list[str]:
    blockers = []
    if any(finding.verdict == "regressed" for finding in findings):
        blockers.append("confirmed_regression")
    blockers += [verdict for verdict in sorted(BROKEN) if any(finding.verdict == verdict for finding in findings)]
    if any(test.slower for test in tests):
        blockers.append("geomean_slower")
    return blockers


def _word(
    gate: GateOutcome,
    findings: Sequence[RowFinding],
    *,
    cover: Coverage,
    facts: Facts,
    policy: Policy,
    standing: Geomean,
) -> tuple[DecisionWord, list[str]]:
    if gate == "block" or cover.measured == 0:
        return "blocked", []
    if facts.codegen:
        return "tune_needed", ["no_time_measured"]
    if standing.vs_best is None:
        unreal = standings.of_rows(findings).vs_best
        return "tune_needed", ["no_standing" if unreal is None else "synthetic_only"]
    word, why = _standing_word(standing.vs_best, policy)
    caps = _caps(findings, facts)
    if (caps or gate != "pass") and word in ("promote", "promote_with_guardrails"):
        word = "tune_needed"
    doubtful = sum(1 for finding in findings if DOUBTS.intersection(finding.baseline_reasons))
    if word == "promote" and doubtful > DOUBTFUL_SHARE * len(findings):
        word = "promote_with_guardrails"
    return word, [*caps, why]


def _standing_word(vs_best: float, policy: Policy) -> tuple[DecisionWord, str]:
    limits = policy.standing
    if vs_best >= limits.promote:
        return "promote", "parity"
    if vs_best >= limits.guardrails:
        return "promote_with_guardrails", "near_parity"
    return ("tune_needed", "below_parity") if vs_best >= limits.tune else ("rewrite_needed", "far_below_parity")


def _caps(findings: Sequence[RowFinding], facts: Facts) -> list[str]:
    """Why a promotion is out of the question whatever the geomean says."""
    caps = []
    if any(finding.hot and finding.status in ("failed", "oom", "incorrect") for finding in findings):
        caps.append("hard_failure")
    if facts.absent_baselines:
        caps.append("baseline_absent")
    if any("opaque_baseline" in finding.baseline_reasons for finding in findings):
        caps.append("opaque_baseline")
    return caps


def _headline(gate: GateOutcome, word: DecisionWord) -> Headline:
    if gate != "pass":
        return "block" if gate == "block" else "no_verdict"
    return "promote" if word in ("promote", "promote_with_guardrails") else "tune"
