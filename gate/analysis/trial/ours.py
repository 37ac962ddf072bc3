"""The judge's own rule on drawn measurements: declared looks in fresh processes, then a confirming session."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from gate.analysis import blocks, looks, verdicts
from gate.analysis.arm import Arm
from gate.analysis.contrast import Contrast, tame
from gate.analysis.controls import Controls
from gate.analysis.estimate import Estimate, Pair
from gate.analysis.trial.source import Draw, Source
from gate.model.policy import Policy
from gate.model.shape import Shape, Weight
from gate.model.shape import Source as ShapeSource

NO_CONTROLS = Controls(movements=(), shifts={}, checked=frozenset(), stale=())


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One commit's outcome: the rows found slower, those left open, and how many visits each row cost."""

    red: frozenset[int]
    open: frozenset[int]
    visits: dict[int, int]


def judge_commit(source: Source, policy: Policy, *, slowed: Mapping[int, float], rng: np.random.Generator) -> Judged:
    """All rows through the looks and the confirmation. `slowed` makes rows of head slower by a factor."""
    waiting = list(range(len(source.times_us)))
    drawn: dict[int, list[Draw]] = {row: [] for row in waiting}
    visits: dict[int, int] = dict.fromkeys(waiting, 0)
    suspects: dict[int, Estimate] = {}
    verdict_of: dict[int, str] = {}
    before = 0
    for look in policy.screen.looks:
        for row in waiting:
            drawn[row].append(_measure(source, rng, row, [look - before], slowed))
            visits[row] += 2 * drawn[row][-1].base.size
        estimates = _estimate(source, waiting, drawn, policy)
        rulings = verdicts.rule(
            [pair(source, row) for row in waiting], estimates, policy=policy, controls=NO_CONTROLS, confirmed={}
        )
        verdict_of = {row: ruling.verdict for row, ruling in zip(waiting, rulings, strict=True)}
        left = []
        for row, estimate, ruling in zip(waiting, estimates, rulings, strict=True):
            if ruling.verdict == "regressed" or ruling.suspect:
                suspects[row] = estimate
            elif looks.goes_on(ruling, estimate, slower=policy.thresholds.slower):
                left.append(row)
        waiting, before = left, look
    red = _confirm(source, policy, suspects, drawn, slowed=slowed, rng=rng, visits=visits)
    unclear = {row for row in waiting if verdict_of[row] == "inconclusive"}
    return Judged(red=red, open=frozenset(unclear) | (frozenset(suspects) - red), visits=visits)


def _confirm(
    source: Source,
    policy: Policy,
    suspects: Mapping[int, Estimate],
    drawn: Mapping[int, list[Draw]],
    *,
    slowed: Mapping[int, float],
    rng: np.random.Generator,
    visits: dict[int, int],
) -> frozenset[int]:
    """The suspects that fresh process pairs confirm, look by look; those clearly not slower are measured no further."""
    waiting, before = sorted(suspects), 0
    fresh: dict[int, list[Draw]] = {row: [] for row in waiting}
    red: frozenset[int] = frozenset()
    for look in policy.confirm.processes:
        if not waiting:
            break
        sizes = [policy.confirm.process_blocks] * (look - before)
        for row in waiting:
            fresh[row].append(_measure(source, rng, row, sizes, slowed))
            visits[row] += 2 * fresh[row][-1].base.size
        found = _settle(source, policy, suspects, drawn, fresh)
        red |= frozenset(row for row, (ruling, _) in found.items() if ruling.verdict == "regressed")
        waiting = [row for row in waiting if row not in red and not _clear(found[row][1], policy)]
        before = look
    return red


def _settle(
    source: Source,
    policy: Policy,
    suspects: Mapping[int, Estimate],
    drawn: Mapping[int, list[Draw]],
    fresh: Mapping[int, list[Draw]],
) -> dict[int, tuple[verdicts.Ruling, Estimate]]:
    """Each suspect's ruling on the confirming session so far, and its estimate there."""
    rows = sorted(suspects)
    # As in a run, the first session's rows help to say what noise is usual.
    context = sorted(drawn)
    both = {**{-1 - row: drawn[row] for row in context}, **fresh}
    found = _estimate(source, [-1 - row for row in context] + rows, both, policy)[len(context) :]
    rulings = verdicts.rule(
        [pair(source, row) for row in rows],
        [suspects[row] for row in rows],
        policy=policy,
        controls=NO_CONTROLS,
        confirmed={str(row): estimate for row, estimate in zip(rows, found, strict=True)},
    )
    return {row: (ruling, estimate) for row, ruling, estimate in zip(rows, rulings, found, strict=True)}


def _clear(estimate: Estimate, policy: Policy) -> bool:
    """Whether more blocks could not make a regression of it."""
    zone = policy.thresholds
    return estimate.hi < math.log1p(zone.not_slower) and estimate.log_ratio <= math.log1p(zone.slower)


def _measure(
    source: Source, rng: np.random.Generator, row: int, sizes: Sequence[int], slowed: Mapping[int, float]
) -> Draw:
    """More blocks, so many in each fresh process pair."""
    found = source.draw(rng, row, sizes)
    factor = slowed.get(row)
    return found if factor is None else msgspec.structs.replace(found, head=found.head + math.log(factor))


def _estimate(source: Source, rows: Sequence[int], drawn: Mapping[int, list[Draw]], policy: Policy) -> list[Estimate]:
    return blocks.of_contrasts(
        [contrast(drawn[row]) for row in rows],
        ops=["op"] * len(rows),
        times_us=source.times_us[[row if row >= 0 else -1 - row for row in rows]].tolist(),
        ceilings=[policy.thresholds.slower] * len(rows),
        policy=policy,
        n_tests=len(source.times_us),
    )


def contrast(draws: Sequence[Draw]) -> Contrast:
    """The block differences of a row measured in one process after another."""
    base, head = (np.concatenate(side) for side in zip(*((one.base, one.head) for one in draws), strict=True))
    visits = base.shape[1]
    own = (base.var(axis=1, ddof=1) + head.var(axis=1, ddof=1)) / visits if visits > 1 else None
    process = tuple((index, own) for index, one in enumerate(draws) for own in one.process)
    numbers = {label: number for number, label in enumerate(dict.fromkeys(process))}
    return Contrast(
        d=tame(base, head) if visits > 1 else head.mean(axis=1) - base.mean(axis=1),
        raw=head.mean(axis=1) - base.mean(axis=1),
        visits=visits,
        process=tuple(numbers[label] for label in process) if len(numbers) > 1 else None,
        aa=None if own is None else float(np.median(own)) / (1 - 2 / (18 * (visits - 1))) ** 3,
        surplus=False,
    )


def pair(source: Source, row: int) -> Pair:
    """A stand-in pair of a drawn row: the rulings ask only for its identity and its ceiling."""
    arm = Arm(state="ok", time_us=float(source.times_us[row]))
    shape = Shape(
        shape_id=str(row), op_type="op", kernel_name="", model="", stage="synthetic", arch="", gpu="", dtype="",
        layout={}, args={}, source=ShapeSource(kind="synthetic"), weight=Weight(), baselines_available=(), notes="",
    )  # fmt: skip
    return Pair(shape=shape, base=arm, head=arm, ceiling=0.01)
