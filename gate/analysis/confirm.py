"""The confirming session: the pairs that it measured, and why none of them can count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gate.analysis import blocks
from gate.analysis.book import open_book
from gate.analysis.cells import lay_out
from gate.analysis.estimate import Pair
from gate.analysis.plain.columns import AnyResults
from gate.analysis.rows import pair_of
from gate.model.decision import Decision
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.policy import Policy
from gate.model.problem import Problem
from gate.model.reasons import STORED
from gate.model.text import counted

if TYPE_CHECKING:
    from gate.analysis.judge import Inputs


def pairs_of(
    confirm: tuple[AnyResults, AnyResults] | None, ledger: Ledger, matrices: Mapping[str, Matrix], policy: Policy
) -> dict[str, Pair]:
    """The pairs of the session's base and head by shape_id, where both arms are usable."""
    if confirm is None:
        return {}
    base, head = (open_book(results) for results in confirm)
    return {
        cell.shape.shape_id: pair_of(cell, policy)
        for cell in lay_out(ledger, matrices, base=base, head=head, policy=policy)
        if cell.base_arm.timed and cell.head_arm.timed
    }


def idle(inputs: Inputs, decision: Decision) -> Problem | None:
    """Why a session that was given can settle no row of this decision; None where it can, or nothing was compared."""
    if inputs.confirm is None or not decision.coverage.measured:
        return None
    if not any(row.ratio is not None and STORED.isdisjoint(row.reasons) for row in decision.rows):
        what = "a confirming session settles only rows whose base and head have blocks of one session; none has here"
        return Problem(what=what, file="", fix="judge its results alone, as --base and --head, or leave --confirm out")
    again = pairs_of(inputs.confirm, inputs.ledger, inputs.matrices, inputs.policy)
    if again and not any(blocks.usable(pair, inputs.policy) for pair in again.values()):
        fewest = counted(inputs.policy.noise.min_blocks, "block")
        what = f"no row of the confirming session has {fewest} of base and of head"
        return Problem(what=what, file="", fix="measure it as the printed command says, both sides in one session")
    return None
