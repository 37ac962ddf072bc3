"""The sequential plan: which rows another look measures again, and which go to the confirming session."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from gate.analysis.estimate import Estimate
from gate.analysis.verdicts import Ruling
from gate.model.decision import RowFinding
from gate.model.policy import Policy


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """shape_ids to measure again at the next look, and those to confirm; `blocks` and `processes` of that session's
    first look."""

    again: tuple[str, ...]
    confirm: tuple[str, ...]
    blocks: int
    processes: int


def goes_on(ruling: Ruling, estimate: Estimate, *, slower: float) -> bool:
    """Whether a row that is no suspect needs another look: it is open, or its best guess lies beyond the zone.

    Stopping at an estimate inside the indifference zone `slower` costs no power beyond it; a row whose estimate lies
    outside might be slower by less than what the first look can establish.
    """
    return ruling.verdict == "inconclusive" or estimate.log_ratio > math.log1p(slower)


def next_processes(policy: Policy, *, done: int) -> int:
    """Process pairs of the confirming session's next look, when `done` have measured; the last look's if none is left.

    What sticks to a process is averaged only over processes, so each of them measures few blocks.
    """
    return next((look for look in policy.confirm.processes if look > done), policy.confirm.processes[-1])


def plan(rows: Iterable[RowFinding], policy: Policy) -> Plan:
    """What a run does next with the findings of a look. Both lists are in the ledger's order."""
    found: Sequence[RowFinding] = tuple(rows)
    suspects = [row for row in found if row.suspect or (row.verdict == "regressed" and row.ratio is not None)]
    named = {row.shape_id for row in suspects}
    again = [row.shape_id for row in found if row.shape_id not in named and _open(row, policy)]
    processes = next_processes(policy, done=0)
    return Plan(
        again=tuple(again),
        confirm=tuple(row.shape_id for row in suspects),
        blocks=processes * policy.confirm.process_blocks,
        processes=processes,
    )


def _open(row: RowFinding, policy: Policy) -> bool:
    if row.ratio is None:
        return False
    return row.verdict == "inconclusive" or (row.verdict == "unchanged" and row.ratio > 1 + policy.thresholds.slower)
