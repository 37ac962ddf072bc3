"""Every ledger shape with its matrix and all its arms in base and head, each checked for being possible at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gate.analysis import capture, physics
from gate.analysis.arm import Arm, arm
from gate.analysis.book import Book
from gate.analysis.capture import Launcher
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.policy import PhysicsPolicy, Policy
from gate.model.shape import Shape

DEFAULT_CANDIDATE = "flydsl"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One ledger shape; `base` and `head` hold the arms of the candidate and of every pinned baseline (`rivals`)."""

    shape: Shape
    matrix: Matrix | None
    candidate: str
    rivals: tuple[str, ...]
    base: dict[str, Arm]
    head: dict[str, Arm]

    @property
    def base_arm(self) -> Arm:
        """The candidate's arm in base."""
        return self.base[self.candidate]

    @property
    def head_arm(self) -> Arm:
        """The candidate's arm in head."""
        return self.head[self.candidate]


def lay_out(ledger: Ledger, matrices: Mapping[str, Matrix], *, base: Book, head: Book, policy: Policy) -> list[Cell]:
    """One cell per ledger shape, in the ledger's order."""
    shapes = {shape.shape_id: shape for shape in ledger.shapes}
    sides = tuple(
        _Side(book=book, void=capture.missing_launchers(book, shapes), policy=policy.physics) for book in (base, head)
    )
    rivals = {op_type: matrix.baselines for op_type, matrix in matrices.items()}
    cells = []
    for shape in ledger.shapes:
        matrix = matrices.get(shape.op_type)
        candidate = matrix.candidate_provider if matrix else DEFAULT_CANDIDATE
        against = rivals.get(shape.op_type, ())
        was, now = (side.arms(shape, (candidate, *against)) for side in sides)
        cells.append(Cell(shape=shape, matrix=matrix, candidate=candidate, rivals=against, base=was, head=now))
    return cells


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    """One run and what is known of all its rows: launchers whose graphs are void, whether physics is checked."""

    book: Book
    void: frozenset[Launcher]
    policy: PhysicsPolicy

    def arms(self, shape: Shape, providers: Iterable[str]) -> dict[str, Arm]:
        """The arms of one shape by provider. All of a run's rows of a shape share a GPU, so the bound is kept."""
        result = {}
        gpu: str | None = ""
        bound: physics.Bound | None = None
        for provider in providers:
            one = arm(self.book, shape_id=shape.shape_id, provider=provider)
            time, outcome = one.time_us, one.outcome
            if time is not None and outcome is not None:
                if self.policy.enabled and outcome.gpu != gpu:
                    gpu = outcome.gpu
                    bound = physics.bound(shape, gpu)
                # Most times are far above the larger bound: only the others need a closer look.
                if self.void or (bound is not None and time < bound.cold_us):
                    one = possible(one, shape, void=self.void, bound=bound, slack=self.policy.slack)
            result[provider] = one
        return result


def possible(one: Arm, shape: Shape, *, void: frozenset[Launcher], bound: physics.Bound | None, slack: float) -> Arm:
    """The arm, or why its time cannot be true: a graph without the kernel, a time below the hardware's bound."""
    outcome, time = one.outcome, one.time_us
    if outcome is None or time is None:
        return one
    if void and (shape.op_type, outcome.provider) in void and outcome.timing_method == "cudagraph":
        detail = (
            f"graph {time:.4g} us against eager {outcome.eager_median_us or 0:.4g} us; the launcher misses its graph"
        )
        return Arm(state="unusable", outcome=outcome, reasons=("partial_capture",), detail=detail)
    least = bound.of(outcome) if bound is not None else 0.0
    if time < least * (1 - slack):
        detail = f"{time:.4g} us is less than the {least:.4g} us that {outcome.gpu} needs"
        return Arm(state="unusable", outcome=outcome, reasons=("physics",), detail=detail)
    return one
