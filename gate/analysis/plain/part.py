"""The plain part of a judgement: which shapes it takes, what it says of controls and stacks, and its findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from gate.analysis import controls as control_arm
from gate.analysis.controls import Controls, Moves
from gate.analysis.environment import Stacks
from gate.analysis.plain.columns import Columns, Places
from gate.analysis.plain.found import findings, same_session
from gate.analysis.plain.group import Arms, Group, group, logs
from gate.analysis.plain.sides import Index, Mask, Side, kinds_of, left_over, of_pairs, side
from gate.analysis.standings import Against
from gate.model.decision import RowFinding
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.outcome import Measured, MeasuredResults
from gate.model.policy import Policy


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The plain shapes of a ledger by op, with both runs; `mask` marks them in the ledger's order."""

    groups: tuple[Group, ...]
    base: Side
    head: Side
    mask: Mask

    @property
    def size(self) -> int:
        """How many shapes it takes."""
        return int(np.count_nonzero(self.mask))

    def others(self, ledger: Ledger) -> Ledger:
        """The ledger without the plain shapes."""
        kept = np.flatnonzero(~self.mask).tolist()
        return Ledger(shapes=tuple(ledger.shapes[index] for index in kept), problems=ledger.problems)

    def left_over(self) -> tuple[MeasuredResults, MeasuredResults]:
        """The rows of base and head that it leaves to the row-by-row judgement."""
        one, two = (
            MeasuredResults(outcomes=tuple(left_over(each, self.mask)), problems=each.columns.problems)
            for each in (self.base, self.head)
        )
        return one, two

    def candidates(self) -> frozenset[str]:
        """The candidates of its groups."""
        return frozenset(each.matrix.candidate_provider for each in self.groups)

    def methods(self) -> frozenset[str | None]:
        """How its candidates were measured."""
        return frozenset(
            one.columns.kinds[number].timing_method
            for each in self.groups
            for one, rows in ((self.base, each.candidate.base), (self.head, each.candidate.head))
            for number in np.unique(one.kind(rows)).tolist()
        )

    def stacks(self, candidates: Iterable[str]) -> tuple[Stacks, Stacks]:
        """What its rows say of GPU and software, base and head."""
        names = frozenset(candidates)
        base, head = (Stacks.of(kinds_of(one, self.mask), names) for one in (self.base, self.head))
        return base, head

    def findings(self, ledger: Ledger, *, policy: Policy, controls: Controls) -> list[tuple[int, RowFinding]]:
        """The finding of each shape with its index in the ledger."""
        return [
            pair
            for each in self.groups
            for pair in zip(
                each.index.tolist(),
                findings(each, ledger.shapes, base=self.base, head=self.head, policy=policy, controls=controls),
                strict=True,
            )
        ]


def part(
    ledger: Ledger,
    matrices: Mapping[str, Matrix],
    *,
    base: Columns,
    head: Columns,
    policy: Policy,
    singled_out: Iterable[str],
) -> Part:
    """The plain part of a judgement. Shapes in `singled_out` (by waivers, by code evidence) are never plain."""
    index = Index(ledger)
    odd = np.zeros(len(ledger.shapes), dtype=bool)
    index.mark(odd, singled_out)
    sides = [side(columns, index) for columns in (base, head)]
    by_op: dict[str, list[int]] = {}
    for number, shape in enumerate(ledger.shapes):
        by_op.setdefault(shape.op_type, []).append(number)
    groups: list[Group] = []
    mask = np.zeros_like(odd)
    for op, numbers in by_op.items():
        places = np.array(numbers, dtype=np.int64)
        if op not in matrices:
            continue
        found = group(matrices[op], places[~odd[places]], ledger.shapes, base=sides[0], head=sides[1], policy=policy)
        if found is not None and len(found.index):
            groups.append(found)
            mask[found.index] = True
    return Part(groups=tuple(groups), base=sides[0], head=sides[1], mask=mask)


def moves(found: Part, ledger: Ledger, matrices: Mapping[str, Matrix], policy: Policy) -> Moves:
    """How the baselines of the plain shapes moved; every pinned baseline is named in the ledger's order."""
    result = Moves()
    for op in dict.fromkeys(shape.op_type for shape in ledger.shapes):
        for provider in matrices[op].baselines if op in matrices else ():
            result.pin(provider, present=False)
    for each in found.groups:
        for provider, arms in zip(each.rivals, each.others, strict=True):
            result.pin(provider, present=True)
            _add(result, provider, each.matrix.op_type, arms, found, policy)
    return result


def _add(result: Moves, provider: str, op_type: str, arms: Arms, found: Part, policy: Policy) -> None:
    old, new = found.base.columns.kinds, found.head.columns.kinds
    was, now = found.base.kind(arms.base), found.head.kind(arms.head)
    stale = of_pairs(old, new, control_arm.changed)[was, now]
    if stale.any():
        result.stale.add(provider)

    def tells(one: Measured, other: Measured) -> bool:
        return control_arm.tells(one, other, policy)

    told = ~stale & of_pairs(old, new, tells)[was, now]
    together = of_pairs(old, new, same_session)[was, now]
    moved = logs(arms.head_us) - logs(arms.base_us)
    for one_session in (False, True):
        result.add(provider, op_type, moved[told & (together == one_session)].tolist(), same_session=one_session)


def add_standings(found: Part, weights: Sequence[float | None], against: Against) -> None:
    """Adds the standing against every single baseline; `weights` by the ledger's index."""
    for each in found.groups:
        own = [weights[number] for number in each.index.tolist()]
        for provider, arms in zip(each.rivals, each.others, strict=True):
            speedups = arms.head_us / each.candidate.head_us
            against.add(provider, zip(speedups.tolist(), own, strict=True))


def in_ledger_order(
    plain: Sequence[tuple[int, RowFinding]], others: Sequence[RowFinding], mask: Mask
) -> tuple[RowFinding, ...]:
    """All findings in the ledger's order."""
    result: list[RowFinding | None] = [None] * len(mask)
    for index, finding in plain:
        result[index] = finding
    places: Places = np.flatnonzero(~mask)
    for index, finding in zip(places.tolist(), others, strict=True):
        result[index] = finding
    return tuple(finding for finding in result if finding is not None)
