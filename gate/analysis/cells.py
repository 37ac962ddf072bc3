"""Every ledger shape with its matrix and all its arms in base and head, each checked for being possible at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gate.analysis import capture, physics
from gate.analysis.arm import ABSENT, Arm, arm
from gate.analysis.book import Book
from gate.analysis.capture import Launcher
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.policy import PhysicsPolicy, Policy
from gate.model.shape import Shape

DEFAULT_CANDIDATE = "flydsl"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One ledger shape; `base` and `head` hold the arms of the candidate and of every pinned baseline."""

    shape: Shape
    matrix: Matrix | None
    candidate: str
    base: dict[str, Arm]
    head: dict[str, Arm]

    @property
    def base_arm(self) -> Arm:
        """The candidate's arm in base."""
        return self.base.get(self.candidate, ABSENT)

    @property
    def head_arm(self) -> Arm:
        """The candidate's arm in head."""
        return self.head.get(self.candidate, ABSENT)


def lay_out(ledger: Ledger, matrices: Mapping[str, Matrix], *, base: Book, head: Book, policy: Policy) -> list[Cell]:
    """One cell per ledger shape, in the ledger's order."""
    shapes = {shape.shape_id: shape for shape in ledger.shapes}
    void = tuple(capture.missing_launchers(book, shapes) for book in (base, head))
    cells = []
    for shape in ledger.shapes:
        matrix = matrices.get(shape.op_type)
        candidate = matrix.candidate_provider if matrix else DEFAULT_CANDIDATE
        providers = (candidate, *matrix.baselines) if matrix else (candidate,)
        cells.append(
            Cell(
                shape=shape,
                matrix=matrix,
                candidate=candidate,
                base=_arms(base, shape, providers, void=void[0], policy=policy.physics),
                head=_arms(head, shape, providers, void=void[1], policy=policy.physics),
            )
        )
    return cells


def _arms(
    book: Book, shape: Shape, providers: Iterable[str], *, void: frozenset[Launcher], policy: PhysicsPolicy
) -> dict[str, Arm]:
    return {
        provider: possible(arm(book, shape_id=shape.shape_id, provider=provider), shape, void=void, policy=policy)
        for provider in providers
    }


def possible(one: Arm, shape: Shape, *, void: frozenset[Launcher], policy: PhysicsPolicy) -> Arm:
    """The arm, or why its time cannot be true: a graph without the kernel, a time below the hardware's bound."""
    outcome, time = one.outcome, one.time_us
    if outcome is None or time is None:
        return one
    if void and (shape.op_type, outcome.provider) in void and outcome.timing_method == "cudagraph":
        detail = (
            f"graph {time:.4g} us against eager {outcome.eager_median_us or 0:.4g} us; the launcher misses its graph"
        )
        return Arm(state="unusable", outcome=outcome, reasons=("partial_capture",), detail=detail)
    bound = physics.bound_us(shape, outcome) if policy.enabled else None
    if bound is not None and time < bound * (1 - policy.slack):
        detail = f"{time:.4g} us is less than the {bound:.4g} us that {outcome.gpu} needs"
        return Arm(state="unusable", outcome=outcome, reasons=("physics",), detail=detail)
    return one
