"""From a judged row to its finding: numbers shown, waivers applied, the standing against the best baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date

import msgspec

from gate.analysis import waive
from gate.analysis.best import Best, best
from gate.analysis.cells import Cell
from gate.analysis.classify import Classified
from gate.analysis.rows import Row, is_hot
from gate.model.decision import CodeEvidence, RowFinding
from gate.model.policy import Policy
from gate.model.waiver import Waiver, WaiverUse

# Shown numbers keep this many digits: more would only be noise, and equal inputs stay equal bytes.
DIGITS = 6


def standing(cell: Cell) -> Best:
    """The best baseline of a cell; a row without a timed candidate has none."""
    if cell.matrix is None or not cell.head_arm.timed:
        return Best(absent=_absent(cell))
    return best(cell.matrix, cell.rivals, candidate=cell.head_arm, base=cell.base, head=cell.head)


def _absent(cell: Cell) -> tuple[str, ...]:
    return tuple(name for name in cell.rivals if cell.head[name].state == "absent")


def apply_waivers(
    cells: Sequence[Cell], rows: Sequence[Row], waivers: Sequence[Waiver], *, today: date
) -> tuple[list[Row], tuple[WaiverUse, ...]]:
    """The rows with waived regressions marked, and what became of each waiver."""
    regressed = {
        (cell.shape.shape_id, cell.candidate): None if row.estimate is None else math.exp(row.estimate.log_ratio)
        for cell, row in zip(cells, rows, strict=True)
        if row.verdict == "regressed"
    }
    rulings, uses = waive.apply(waivers, regressed, today=today)
    if not rulings:
        return list(rows), uses
    return [
        _waived(row, rulings.get((cell.shape.shape_id, cell.candidate))) for cell, row in zip(cells, rows, strict=True)
    ], uses


def _waived(row: Row, ruling: waive.Waived | None) -> Row:
    if ruling is None:
        return row
    verdict = "waived" if ruling.covered else row.verdict
    return msgspec.structs.replace(row, verdict=verdict, reasons=(*row.reasons, ruling.reason))


def finding(
    cell: Cell, row: Row, found: Best, classified: Classified, *, policy: Policy, code: Mapping[str, CodeEvidence]
) -> RowFinding:
    """The finding of one row."""
    shape, estimate = cell.shape, row.estimate
    head, base = cell.head_arm, cell.base_arm
    outcome, category = head.outcome, classified.category
    return RowFinding(
        shape_id=shape.shape_id,
        provider=cell.candidate,
        verdict=row.verdict,
        reasons=row.reasons,
        op_type=shape.op_type,
        model=shape.model,
        stage=shape.stage,
        dtype=shape.dtype,
        args=shape.args,
        ratio=None if estimate is None else _exp(estimate.log_ratio),
        ci=None if estimate is None else (_exp(estimate.lo), _exp(estimate.hi)),
        mde=None if estimate is None else _round(math.expm1(min(estimate.mde_log, 700.0))),
        base_us=_round(base.time_us),
        head_us=_round(head.time_us),
        classification=None if category is None else category.name,
        evidence="" if category is None else category.evidence,
        likely_fix="" if category is None else category.likely_fix,
        launcher=classified.launcher,
        profile=classified.profile,
        hot=is_hot(shape, policy),
        weight=shape.weight.value,
        speedup_vs_best=_round(found.speedup),
        best_baseline=found.provider,
        baseline_reasons=found.reasons,
        method=None if outcome is None else outcome.timing_method,
        status=None if outcome is None else "incorrect" if head.state == "incorrect" else outcome.benchmark_status,
        detail=row.detail,
        code=code.get(shape.shape_id),
        ceiling=row.ceiling if estimate is not None else None,
        suspect=row.suspect,
    )


def _exp(log: float) -> float:
    return float(f"{math.exp(max(min(log, 700.0), -700.0)):.{DIGITS}g}")


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
