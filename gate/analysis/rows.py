"""The judgement of every ledger row on its way to a finding: one Row per cell, in the ledger's order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from gate.analysis import blocks, code_rows, summary, verdicts
from gate.analysis.cells import Cell
from gate.analysis.controls import Controls
from gate.analysis.estimate import Estimate, Pair
from gate.analysis.pairing import Settled, settle
from gate.model.decision import CodeEvidence, Verdict
from gate.model.policy import Policy
from gate.model.shape import Shape

HOLE_WITHOUT_MATRIX = Settled(verdict="not_run", reasons=("no_matrix",), hole=True)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A cell's verdict. `hole`: it leaves the run unmeasured; `required`: coverage counts it."""

    verdict: Verdict
    reasons: tuple[str, ...]
    detail: str = ""
    hole: bool = False
    required: bool = True
    suspect: bool = False
    estimate: Estimate | None = None
    ceiling: float = 0.0


def ceiling(shape: Shape, policy: Policy) -> float:
    """The slowdown that the policy accepts for a row: the shape's, else the op's, else the indifference zone's."""
    own = policy.ceilings.shapes.get(shape.shape_id)
    if own is not None:
        return own
    return policy.ceilings.ops.get(shape.op_type, policy.thresholds.slower)


def is_hot(shape: Shape, policy: Policy) -> bool:
    """Whether a row counts for hard failures and the profiler: a shape of a model or a serving trace."""
    if shape.shape_id in policy.hot.shapes:
        return True
    weight = shape.weight.value
    return shape.stage in policy.hot.stages and (weight is None or weight >= policy.hot.min_weight)


def judge_rows(
    cells: Sequence[Cell],
    *,
    policy: Policy,
    controls: Controls,
    floors: Mapping[str, float],
    code: Mapping[str, CodeEvidence],
    confirm: Mapping[str, Pair],
) -> list[Row]:
    """One Row per cell."""
    rows: list[Row | None] = [_settled(cell, policy, code) for cell in cells]
    waiting = [index for index, row in enumerate(rows) if row is None]
    pairs = [pair_of(cells[index], policy) for index in waiting]
    estimates = _estimates(pairs, policy, controls=controls, floors=floors)
    confirmed = _confirm_estimates(confirm, pairs, policy)
    rulings = verdicts.rule(pairs, estimates, policy=policy, controls=controls, confirmed=confirmed)
    for index, pair, estimate, ruling in zip(waiting, pairs, estimates, rulings, strict=True):
        rows[index] = Row(
            verdict=ruling.verdict,
            reasons=ruling.reasons,
            suspect=ruling.suspect,
            estimate=estimate,
            ceiling=pair.ceiling,
            detail=_detail(estimate, ruling.verdict, suspect=ruling.suspect),
        )
    return [row for row in rows if row is not None]


def pair_of(cell: Cell, policy: Policy) -> Pair:
    """The candidate's two arms of a cell, as a pair to test."""
    return Pair(shape=cell.shape, base=cell.base_arm, head=cell.head_arm, ceiling=ceiling(cell.shape, policy))


def _settled(cell: Cell, policy: Policy, code: Mapping[str, CodeEvidence]) -> Row | None:
    if cell.matrix is None:
        return _row(HOLE_WITHOUT_MATRIX)
    base, head = cell.base_arm, cell.head_arm
    found = settle(base=base, head=head, environment=policy.environment)
    if found is None and not head.timed and base.outcome is not None and head.outcome is not None:
        evidence = code.get(cell.shape.shape_id)
        found = code_rows.rule(base=base.outcome, head=head.outcome, code=evidence, policy=policy.codegen)
    return None if found is None else _row(found, notes=base.notes + head.notes)


def _row(settled: Settled, notes: tuple[str, ...] = ()) -> Row:
    return Row(
        verdict=settled.verdict,
        reasons=tuple(dict.fromkeys(settled.reasons + notes)),
        detail=settled.detail,
        hole=settled.hole,
        required=settled.required,
    )


def _estimates(
    pairs: Sequence[Pair], policy: Policy, *, controls: Controls, floors: Mapping[str, float]
) -> list[Estimate]:
    tested = [index for index, pair in enumerate(pairs) if blocks.usable(pair, policy)]
    chosen = set(tested)
    stored = [index for index in range(len(pairs)) if index not in chosen]
    result: list[Estimate | None] = [None] * len(pairs)
    by_blocks = blocks.estimate([pairs[index] for index in tested], policy, n_tests=len(tested))
    by_summary = summary.estimate([pairs[index] for index in stored], policy, shifts=controls.shifts, floors=floors)
    for index, estimate in zip([*tested, *stored], [*by_blocks, *by_summary], strict=True):
        result[index] = estimate
    return [estimate for estimate in result if estimate is not None]


def _confirm_estimates(confirm: Mapping[str, Pair], pairs: Sequence[Pair], policy: Policy) -> dict[str, Estimate]:
    """The estimates of the confirming session; the first session's rows help to say what noise is usual."""
    again = [pair for pair in confirm.values() if blocks.usable(pair, policy)]
    if not again:
        return {}
    context = [pair for pair in pairs if blocks.usable(pair, policy)]
    found = blocks.estimate([*context, *again], policy, n_tests=len(again))[len(context) :]
    return {pair.shape.shape_id: estimate for pair, estimate in zip(again, found, strict=True)}


def _detail(estimate: Estimate, verdict: Verdict, *, suspect: bool) -> str:
    """Where the blocks of a changed row disagree, how far they do; or how far the machine itself moved. Else nothing,
    so that the evidence of the classification is what a reader sees."""
    if estimate.shift:
        return moved_detail(estimate.shift)
    faster = verdict == "improved"
    n, k = estimate.slower, estimate.n_blocks
    agree = n == 0 if faster else n == k
    if estimate.kind != "blocks" or agree or not (suspect or faster or verdict == "regressed"):
        return ""
    span = f"{math.expm1(estimate.least):+.1%} to {math.expm1(estimate.most):+.1%}"
    return f"{'faster' if faster else 'slower'} in {k - n if faster else n} of {k} paired blocks, {span}"


def moved_detail(shift: float) -> str:
    """How far the machine itself moved, log(head/base)."""
    return f"controls moved {math.expm1(shift):+.1%}"
