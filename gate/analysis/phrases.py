"""The plain sentences of a decision: what happened, what to do next, and the commands that repeat it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from gate.analysis.decide import Conclusion
from gate.analysis.looks import next_processes
from gate.model.decision import Command, Coverage, RowFinding
from gate.model.policy import Policy
from gate.model.reasons import SETTLED_BY, open_kind, sentence
from gate.model.severity import severity
from gate.model.text import counted

MOST_SHAPES = 20
# What a suspect that the screen named, and that nothing confirmed yet, has as its reason.
SCREENED = frozenset({"awaits_confirmation", "unconfirmed"})
ARMS = "BASE and HEAD: python=... of each commit"
CODE_SEVERITY = {"fail": 0, "warn": 1}
# What a change of that severity comes to where it is all that there is to judge.
UNJUDGED = {1: "; exit code 2, no verdict, is expected: alone, its change can be judged by a time only"}
# Of a confirmed regression; where no profiler sees a kernel, the second.
PROFILE_STEP = "profile the worst row, or waive it with a reason and an expiry"
UNPROFILED_STEP = "mend the worst row and measure it again, or waive it with a reason and an expiry"
_NEXT: dict[str, str] = {
    "nothing_measured": "make the head run produce results, then judge again",
    "nothing_ran": "see why each row did not run, and choose what this candidate serves or mend it, then run it again",
    "first_run": "record a baseline on the base commit, then judge again",
    "nothing_compared": "measure base and head on one stack, then judge again",
    "coverage": "measure or repair the rows that were not compared, then judge again",
    "refused_rows": "correct the refused rows named under problems, then judge again",
    "suspects_unconfirmed": SETTLED_BY["suspect"],
    "mostly_new": "record the baseline of the new rows on the base commit, then judge again",
    "ledger_refused": "restore the files named under problems, or freeze them again on purpose, then judge again",
    "mixed_kinds": "judge times against times and machine code against machine code",
    "cannot_fail": "raise screen.looks in the policy, then measure again",
    "confirmed_regression": PROFILE_STEP,
    "newly_failed": "repair the rows that fail",
    "newly_incorrect": "repair the rows that are wrong",
    "geomean_slower": "find what costs a little everywhere; no single row shows it",
    "hard_failure": "repair the failing rows; they rule out a promotion",
    "baseline_absent": "measure the absent baseline; without it there is no 'best'",
    "opaque_baseline": "name the backend of the opaque baseline",
    "no_time_measured": "time the changed rows on the GPU before any claim of speed",
    "synthetic_only": "measure shapes of a model or a serving trace",
    "no_standing": "measure the pinned baselines beside the candidate",
    "below_parity": "tune the rows furthest behind the best baseline",
    "far_below_parity": "rewrite the rows furthest behind the best baseline",
    "near_parity": "promote with the slower rows named as guardrails",
    "parity": "promote",
}


def summary(outcome: Conclusion, counts: Mapping[str, int], cover: Coverage) -> str:
    """One sentence of numbers, then the first reason in words."""
    told = ", ".join(f"{n} {verdict.replace('_', ' ')}" for verdict, n in counts.items() if n and verdict != "total")
    rows = counted(counts["total"], "row")
    return f"{rows}: {told or 'none'}; {cover.judged} of {cover.required} judged. {_capital(outcome)}."


def _capital(outcome: Conclusion) -> str:
    text = sentence(outcome.reasons[0])
    return text[:1].upper() + text[1:]


def next_step(outcome: Conclusion, findings: Sequence[RowFinding] = (), others: Sequence[str] = ()) -> str:
    """What to do, from the first reason that has an answer.

    `others` are the providers that both sides have times of, where neither has any of the candidate.
    """
    if others and outcome.reasons[:1] in (("nothing_compared",), ("nothing_ran",)):
        return f"nothing was measured of the candidate; both sides timed {', '.join(others)}: name one as --candidate"
    if outcome.reasons[:1] == ("confirmed_regression",) and not any(f.ratio is not None for f in findings):
        return (
            "see in the page of the worst kernel what changed, and mend it; a waiver needs a time, so measure on a GPU"
        )
    if any(f.reasons == ("code_unjudged",) for f in findings):
        return "compare the machine code with gate codegen diff, or judge it with gate run"
    if "mostly_inconclusive" in outcome.reasons and any(map(_code_changed, findings)):
        return _NEXT["no_time_measured"]
    if outcome.reasons == ("no_time_measured",) and not any(map(_code_changed, findings)):
        return "nothing to do; the machine code is the baseline's, byte for byte"
    steps = {**_NEXT, "mostly_inconclusive": _settling(findings)}
    return next((steps[code] for code in outcome.reasons if code in steps), "nothing to do")


def _settling(findings: Sequence[RowFinding]) -> str:
    """What settles most of the open rows."""
    kinds = [open_kind(finding.reasons) for finding in findings if finding.verdict == "inconclusive"]
    return SETTLED_BY[max(SETTLED_BY, key=kinds.count)]


def _code_changed(finding: RowFinding) -> bool:
    return finding.code is not None and finding.code.verdict != "same"


def commands(findings: Sequence[RowFinding], policy: Policy, *, confirmed: int) -> tuple[Command, ...]:
    """The commands that settle suspects and repeat the worst rows, one per op.

    `confirmed`: the process pairs that a confirming session has measured with already.
    """
    return (*_timing_commands(findings, policy, confirmed), *_code_commands(findings))


def _code_commands(findings: Sequence[RowFinding]) -> tuple[Command, ...]:
    """Compile the worst kernel again, and show it beside the baseline's."""
    rows_of: dict[tuple[int, tuple[int, ...], str], list[RowFinding]] = {}
    for finding in findings:
        if finding.code is not None and finding.code.verdict in CODE_SEVERITY:
            code = finding.code
            kernel = CODE_SEVERITY[code.verdict], severity(code), code.compile_key
            rows_of.setdefault(kernel, []).append(finding)
    if not rows_of:
        return ()
    # As in the texts: of the worst verdict the worst change, then the kernel that most rows run.
    kernel = min(rows_of, key=lambda one: (*one[:2], -len(rows_of[one]), one[2]))
    worst = min(rows_of[kernel], key=lambda f: f.shape_id)
    again = ["gate", "run", "--op", worst.op_type, "--shape", worst.shape_id, "--out", "gate-again"]
    show = [
        "gate",
        "codegen",
        "show",
        kernel[2],
        "--base",
        "frozen_ledgers",
        "--head",
        "gate-again/results",
    ]
    return (
        Command(what=f"compile the worst kernel again{UNJUDGED.get(kernel[0], '')}", line=shlex.join(again)),
        Command(what="then see it beside the baseline's", line=shlex.join(show)),
    )


def _timing_commands(findings: Sequence[RowFinding], policy: Policy, confirmed: int) -> tuple[Command, ...]:
    suspects = [f for f in findings if f.suspect or (f.verdict == "regressed" and f.ratio is not None)]
    by_op: dict[str, list[RowFinding]] = {}
    for finding in sorted(suspects, key=_place):
        by_op.setdefault(finding.op_type, []).append(finding)
    again = [
        Command(
            what=f"measure the {_rows(members)} of {op} again; {ARMS}{_then(op, members)}",
            line=_replay(op, members[:MOST_SHAPES], policy, confirmed),
        )
        for op, members in by_op.items()
    ]
    worst = next((f for members in by_op.values() for f in members if f.verdict == "regressed"), None)
    return (*again, *([_profiling(worst)] if worst is not None else ()))


def _place(finding: RowFinding) -> tuple[int, float, str, str]:
    """By result and then by how much slower, as in the texts: what is confirmed, what the screen named, what only looks
    slower beyond its noise."""
    named = not SCREENED.isdisjoint(finding.reasons)
    ratio = finding.ratio if finding.ratio is not None and math.isfinite(finding.ratio) else 0.0
    return 0 if finding.verdict == "regressed" else 1 if named else 2, -ratio, finding.shape_id, finding.provider


def _then(op: str, members: Sequence[RowFinding]) -> str:
    """What is done with the times of another session where stored ones, which it cannot confirm, were compared."""
    stored = any(open_kind(finding.reasons) == "stored" for finding in members)
    return (
        f"; then judge --base confirm-{op}/base --head confirm-{op}/head, which tells of these rows" if stored else ""
    )


def _profiling(worst: RowFinding) -> Command:
    subject = ["--op", worst.op_type, "--shape", worst.shape_id, "--provider", worst.provider]
    line = f'{shlex.join(["gate", "profile", *subject, "--out", "profiled"])} --head "$HEAD"'
    return Command(what="profile the worst row; HEAD as above", line=line)


def _replay(op: str, members: Sequence[RowFinding], policy: Policy, confirmed: int) -> str:
    shapes = [part for finding in members for part in ("--shape", finding.shape_id)]
    processes = next_processes(policy, done=confirmed)
    spread = ["--blocks", str(processes * policy.confirm.process_blocks), "--processes", str(processes)]
    fixed = shlex.join(["gate", "replay", "--op", op, *shapes, *spread, "--out", f"confirm-{op}"])
    return f'{fixed} --base "$BASE" --head "$HEAD"'


def _rows(members: Sequence[RowFinding]) -> str:
    shown = min(len(members), MOST_SHAPES)
    return f"{'worst ' if shown < len(members) else ''}{counted(shown, 'row')}"
