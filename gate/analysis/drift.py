"""Knows what slow drift is: rows far slower than a pinned release, though no single step to there was large.

Release and head are of separate sessions, so only the control arm tells a slower kernel from a slower machine: the
median move of the untouched baselines of an op is taken out, and without them nothing is said.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from gate.analysis import controls
from gate.analysis.book import open_book
from gate.analysis.cells import Cell, lay_out
from gate.analysis.pairing import mismatch
from gate.analysis.student import quantile
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.outcome import MeasuredResults, Results
from gate.model.policy import EnvironmentPolicy, Policy
from gate.model.policy_noise import Floor
from gate.model.text import counted

FEWEST_ROWS = 2
# What must be equal. Drivers and toolkits change between releases: they move the controls as well, and a control whose
# own library changed is none.
SAME_MACHINE = EnvironmentPolicy(incomparable=("gpu", "arch"))


class RowDrift(msgspec.Struct, frozen=True, kw_only=True):
    """One row of head over the pinned one: `ratio` above 1 = slower, the controls' move taken out."""

    shape_id: str
    release_us: float
    head_us: float
    ratio: float
    limit: float
    drifted: bool


class OpDrift(msgspec.Struct, frozen=True, kw_only=True):
    """One op against the pinned release.

    `ratio` is the geomean of its `n` rows, head over release (above 1 = slower), `controls` how far the untouched
    baselines moved, which is taken out of it, `low` its one-sided lower bound. `why` says why nothing was
    judged, or which rows of the release were not.
    """

    op_type: str
    state: Literal["ok", "drifted", "unjudged"]
    n: int
    of: int
    ratio: float | None = None
    low: float | None = None
    controls: float | None = None
    limit: float
    rows: tuple[RowDrift, ...] = ()
    why: str = ""


def drift(
    ledger: Ledger,
    matrix: Matrix,
    *,
    release: Results | MeasuredResults,
    head: Results | MeasuredResults,
    policy: Policy,
) -> OpDrift:
    """How the candidate of one op stands to a pinned release, worst row first.

    Nothing is fine where a row that the release has a time of could not be compared; what drifted has drifted.
    """
    found = lay_out(ledger, {matrix.op_type: matrix}, base=open_book(release), head=open_book(head), policy=policy)
    blank = OpDrift(op_type=matrix.op_type, state="unjudged", n=0, of=len(found), limit=1 + policy.drift.op)
    pairs = {cell.shape.shape_id: pair for cell in found if (pair := _pair(cell)) is not None}
    if not pairs:
        return replace(blank, why=_why_none(found, matrix.candidate_provider))
    if own := _own_session([cell for cell in found if cell.shape.shape_id in pairs]):
        return replace(blank, n=len(pairs), why=own)
    every = replace(
        policy,
        controls=replace(policy.controls, moved=0.0),
        environment=SAME_MACHINE,
    )
    moved = controls.compare(found, every)
    if not moved.checked:
        fewest = counted(policy.controls.min_rows, "untouched baseline was", "untouched baselines were")
        why = f"fewer than {fewest} measured in both, in the same way"
        return replace(blank, n=len(pairs), why=why)
    shift = moved.shifts.get(matrix.op_type, 0.0)
    methods = {cell.shape.shape_id: _floor(cell, policy) for cell in found}
    rows = [
        _row(shape_id, pair, shift=shift, floor=methods[shape_id], policy=policy) for shape_id, pair in pairs.items()
    ]
    judged = _together(blank, sorted(rows, key=lambda row: -row.ratio), shift=shift, policy=policy)
    why = _why_part(found, len(rows))
    return replace(judged, state="unjudged" if why and judged.state == "ok" else judged.state, why=why)


def _pair(cell: Cell) -> tuple[float, float] | None:
    """Times of release and head in us, where both were measured in the same way on the same kind of machine."""
    was, now = cell.base_arm, cell.head_arm
    if was.time_us is None or now.time_us is None or was.outcome is None or now.outcome is None:
        return None
    return (was.time_us, now.time_us) if mismatch(was.outcome, now.outcome, SAME_MACHINE) is None else None


def _why_none(cells: list[Cell], candidate: str) -> str:
    both = sum(cell.base_arm.timed and cell.head_arm.timed for cell in cells)
    if both:
        return f"{counted(both, 'row was', 'rows were')} measured in both, none in the same way on the same kind of GPU"
    elsewhere = any(cell.head_arm.timed for cell in cells)
    why = "only rows that it lacks were measured" if elsewhere else f"{candidate} has no time here"
    return f"0 of its {counted(sum(cell.base_arm.timed for cell in cells), 'row')}: {why}"


def _why_part(cells: list[Cell], compared: int) -> str:
    """How many rows of the release were not compared, with one of them; empty where all were."""
    left = [cell for cell in cells if cell.base_arm.timed and _pair(cell) is None]
    if not left:
        return ""
    lacking = sum(not cell.head_arm.timed for cell in left)
    why = f"{lacking} without a time here" if lacking else ""
    other = f"{len(left) - lacking} measured in another way" if lacking < len(left) else ""
    told = " and ".join(filter(None, (why, other)))
    return f"only {compared} of its {counted(compared + len(left), 'row')}: {told}, such as {left[0].shape.shape_id}"


def _own_session(cells: list[Cell]) -> str:
    """Why rows that were all measured in the session of the release tell of no drift; empty for any other session."""
    ids = set()
    for cell in cells:
        was, now = cell.base_arm.outcome, cell.head_arm.outcome
        if was is None or now is None or was.session_id is None or was.session_id != now.session_id:
            return ""
        ids.add(now.session_id)
    named = f"session {next(iter(ids))}" if len(ids) == 1 else counted(len(ids), "session")
    if all(cell.base_arm.time_us == cell.head_arm.time_us for cell in cells):
        return f"these are the release's own results, of {named}: there is nothing to compare; give a later run's"
    return f"measured in the release's own {named}, so no time lies between them: gate judge compares such rows"


def _floor(cell: Cell, policy: Policy) -> Floor | None:
    outcome = cell.head_arm.outcome
    found = getattr(policy.noise, str(outcome.timing_method), None) if outcome is not None else None
    return found if isinstance(found, Floor) else None


def _row(shape_id: str, pair: tuple[float, float], *, shift: float, floor: Floor | None, policy: Policy) -> RowDrift:
    release_us, head_us = pair
    ratio = head_us / release_us * math.exp(-shift)
    stratum = int(np.searchsorted(policy.noise.strata_us, release_us))
    limit = 1 + max(policy.drift.row, floor.limit[stratum] if floor is not None else 0.0)
    return RowDrift(
        shape_id=shape_id, release_us=release_us, head_us=head_us, ratio=ratio, limit=limit, drifted=ratio > limit
    )


def _together(blank: OpDrift, rows: list[RowDrift], *, shift: float, policy: Policy) -> OpDrift:
    logs = np.log([row.ratio for row in rows])
    mean, low = float(np.mean(logs)), -math.inf
    if len(logs) >= max(FEWEST_ROWS, policy.geomean.min_rows):
        # The sessions' own offset does not shrink with the rows, as it is one for all of them.
        se = math.sqrt(float(np.var(logs, ddof=1)) / len(logs) + policy.noise.process_sd**2)
        low = mean - float(quantile(1 - policy.drift.alpha, np.array([len(logs) - 1.0]))[0]) * se
    together = low > 0 and mean > math.log1p(policy.drift.op)
    return replace(
        blank,
        state="drifted" if together or any(row.drifted for row in rows) else "ok",
        n=len(rows),
        ratio=math.exp(mean),
        low=math.exp(low) if math.isfinite(low) else None,
        controls=math.exp(shift),
        rows=tuple(rows),
    )


def sentences(found: OpDrift, release: str) -> list[str]:
    """What drifted, in one sentence for the op and one for its rows; none where nothing did."""
    said = []
    if found.low is not None and found.low > 1 and found.ratio is not None and found.ratio > found.limit:
        said.append(
            f"drifted: {counted(found.n, 'row takes', 'rows together take')} {found.ratio:.3f}x the time of release "
            f"{release}, the limit is {found.limit:.3f}x"
        )
    worse = [row for row in found.rows if row.drifted]
    if worse:
        first = worse[0]
        said.append(
            f"drifted: {len(worse)} of {counted(found.n, 'row')} beyond their limit against release {release}, "
            f"such as {first.shape_id} with {first.ratio:.3f}x (limit {first.limit:.3f}x)"
        )
    return said
