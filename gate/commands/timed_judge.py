"""What a timed run's rows come to: judged with what confirms them, and what a run that broke off may still say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec

from gate.analysis.judge import Inputs, judge
from gate.commands import judged
from gate.commands.artifact_judge import stored_results, uncontradicted
from gate.commands.printed import Given, repeatable
from gate.commands.timed_session import MeasuredRun, unmeasured
from gate.commands.timed_work import Work
from gate.model.decision import CodeEvidence, Decision
from gate.model.ledger import Ledger
from gate.model.outcome import Outcome, Results
from gate.model.policy import Policy
from gate.model.problem import Problem
from gate.model.text import counted
from gate.model.waiver import Waiver
from gate.replay.blocks import BASE, HEAD

MOST_NAMED = 20


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What the judgement needs beside the rows."""

    work: Work
    policy: Policy
    waivers: tuple[Waiver, ...]
    today: date
    given: Given


def judge_rows(
    frame: Frame, found: MeasuredRun, *, root: Path, code: Mapping[str, CodeEvidence], may_block: bool = True
) -> Decision:
    """The decision on what was measured; without a base of this session it is held against the stored one.

    What broke off blocks on a confirmed regression if it `may_block`, and has no verdict else.
    """
    head, base = found.rows[HEAD], found.rows.get(BASE)
    again = None if found.confirm is None else (found.confirm[BASE], found.confirm[HEAD])
    stored = () if base is not None else _stored(root, head)
    decision = judge(inputs(frame, head, base or stored, confirm=again, code=code))
    decision = uncontradicted(decision)
    decision = repeatable(decision, matrices=frame.work.inputs.matrices, given=frame.given)
    decision = msgspec.structs.replace(decision, scope=frame.work.scope)
    missing = unmeasured(frame.work, found.rows)
    if not (missing or found.broken):
        return decision
    red = {row.shape_id for row in decision.rows if row.verdict == "regressed"}
    confirmed = (
        may_block and decision.gate == "block" and not red.isdisjoint(_measured(again[1]) if again is not None else ())
    )
    return unfinished(decision, missing, found.broken, confirmed=confirmed)


def _measured(rows: Sequence[Outcome]) -> set[str]:
    return {row.shape_id for row in rows if row.benchmark_status == "ok"}


def _stored(root: Path, head: Sequence[Outcome]) -> Sequence[Outcome]:
    arches = {row.arch for row in head if row.arch}
    return stored_results(root, arches.pop()).outcomes if len(arches) == 1 else ()


def inputs(
    frame: Frame,
    head: Sequence[Outcome],
    base: Sequence[Outcome] | None,
    *,
    confirm: tuple[Sequence[Outcome], Sequence[Outcome]] | None = None,
    code: Mapping[str, CodeEvidence] | None = None,
) -> Inputs:
    """Everything a judgement depends on."""
    wanted = {shape.shape_id for shape in frame.work.inputs.shapes}
    return Inputs(
        ledger=Ledger(shapes=frame.work.inputs.shapes),
        matrices=frame.work.inputs.matrices,
        base=Results(outcomes=tuple(row for row in base or () if row.shape_id in wanted)),
        head=Results(outcomes=tuple(head)),
        policy=frame.policy,
        waivers=frame.waivers,
        today=frame.today,
        code=code or {},
        confirm=None if confirm is None else (_results(confirm[0]), _results(confirm[1])),
    )


def _results(rows: Sequence[Outcome]) -> Results:
    return Results(outcomes=tuple(rows))


def unfinished(decision: Decision, missing: Sequence[str], broken: Sequence[Problem], *, confirmed: bool) -> Decision:
    """No verdict unless a regression is confirmed, which no missing row could mend; names what is missing and why."""
    named = ", ".join(missing[:MOST_NAMED]) + (f" and {len(missing) - MOST_NAMED} more" if missing[MOST_NAMED:] else "")
    what = [f"{counted(len(missing), 'shape was', 'shapes were')} not measured: {named}"] if missing else []
    told = [*(problem.what for problem in broken), *what]
    next_step = "run it again with --resume; what is finished is not measured twice"
    if confirmed:
        found = msgspec.structs.replace(
            decision,
            reasons=(*decision.reasons, "not_finished"),
            next_step=f"{decision.next_step}; --resume measures the rest",
            problems=(*told, *decision.problems),
        )
    else:
        found = judged.withheld(decision, "not_finished", problems=told, next_step=next_step)
    return msgspec.structs.replace(found, summary=f"The run did not finish: {told[0]}. {decision.summary}")
