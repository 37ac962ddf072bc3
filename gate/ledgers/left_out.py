"""Knows which ops a decision judged that a run does not offer: a part of a decision is no baseline."""

from __future__ import annotations

from collections.abc import Iterable

from gate.ledgers.baselines import CodeOffer, Offer
from gate.model.decision import Decision
from gate.model.problem import Problem
from gate.model.text import counted

# What rows say of a candidate that nobody timed or compiled, in the results or in the decision.
UNMEASURED = frozenset({"skipped", "unsupported", "not_configured"})


def measured(offer: Offer) -> bool:
    """Whether the candidate of an offer was measured on any shape, whatever came of it."""
    return not {row.benchmark_status for row in offer.own} <= UNMEASURED


def left_out(decision: Decision, offered: Iterable[Offer | CodeOffer]) -> list[Problem]:
    """The ops on which the decision judged a candidate that is not among what is offered, one line for each.

    An op of which the decision itself says that the candidate was not measured is none of them.
    """
    here = {offer.op_type for offer in offered if isinstance(offer, CodeOffer) or measured(offer)}
    judged: dict[str, list[str]] = {}
    for row in decision.rows:
        if row.verdict != "not_run":
            judged.setdefault(row.op_type, []).append(row.provider)
    return [
        Problem(
            what=f"left out: the decision judged {counted(len(rows), 'row')} of {rows[0]}, none of them is here",
            file=op_type,
            fix="give all results of the run that was judged, or judge again without this op",
        )
        for op_type, rows in sorted(judged.items())
        if op_type not in here
    ]
