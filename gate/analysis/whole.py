"""What a decision says of a run as a whole: counts, stacks, standings, error rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from gate.analysis import environment as stacks_of
from gate.analysis import standings as groups
from gate.analysis.book import Book
from gate.analysis.cells import Cell
from gate.analysis.estimate import Pair
from gate.analysis.plain import part
from gate.analysis.plain.part import Part
from gate.model.decision import Environment, GeomeanTest, RowFinding, Standing, Verdict
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix
from gate.model.policy import Policy
from gate.model.waiver import WaiverUse

VERDICT_WORDS: tuple[Verdict, ...] = get_args(Verdict)


def environment(cells: Sequence[Cell], books: tuple[Book, Book], plain: Part | None) -> Environment:
    """The stacks of base and head, and which fields differ."""
    names = frozenset(cell.candidate for cell in cells) | (plain.candidates() if plain else frozenset())
    stacks = [stacks_of.Stacks.of(book, names) for book in books]
    if plain is not None:
        stacks = [own.both(more) for own, more in zip(stacks, plain.stacks(names), strict=True)]
    return stacks_of.compare(stacks[0], stacks[1])


def standings(
    ledger: Ledger,
    matrices: Mapping[str, Matrix],
    cells: Sequence[Cell],
    found: Sequence[RowFinding],
    plain: Part | None,
) -> tuple[Standing, ...]:
    """The standing of each op, stage, model and baseline."""
    against = groups.Against()
    for op in dict.fromkeys(shape.op_type for shape in ledger.shapes):
        for provider in matrices[op].baselines if op in matrices else ():
            against.pin(provider)
    if plain is not None:
        part.add_standings(plain, [finding.weight for finding in found], against)
    return groups.standings(found, groups.against_each(cells, against))


def processes(pair: Pair) -> int:
    """How many process pairs measured a pair of arms."""
    labels = None if pair.head.outcome is None else pair.head.outcome.block_process
    return len(set(labels)) if labels else 1


def methods(cells: Sequence[Cell]) -> frozenset[str | None]:
    """How the candidate's usable rows were measured, in base or head; codegen is machine code without a time."""
    return frozenset(
        arm.outcome.timing_method
        for cell in cells
        for arm in (cell.base_arm, cell.head_arm)
        if arm.state == "ok" and arm.outcome is not None
    )


def timed_instead(cells: Sequence[Cell]) -> tuple[str, ...]:
    """The baselines that both runs have times of, where neither tried the candidate on any shape."""
    if any(arm.state not in ("absent", "off") for cell in cells for arm in (cell.base_arm, cell.head_arm)):
        return ()
    return tuple(
        sorted({name for cell in cells for name in cell.rivals if cell.base[name].timed and cell.head[name].timed})
    )


def counts(found: Sequence[RowFinding]) -> dict[str, int]:
    """How many rows have each verdict, and `total`."""
    told = Counter(finding.verdict for finding in found)
    by_verdict: dict[str, int] = {verdict: told[verdict] for verdict in VERDICT_WORDS}
    assert sum(by_verdict.values()) == len(found)
    return {**by_verdict, "total": len(found)}


def waiver(use: WaiverUse) -> dict[str, Any]:
    """What became of a waiver, with its fields."""
    fields: dict[str, Any] = msgspec.to_builtins(use.waiver)
    return {"state": use.state, "ratio": use.ratio, **fields}


def error_rates(policy: Policy, tested: int, tests: Sequence[GeomeanTest]) -> dict[str, Any]:
    """Which errors the tests accept, and how many tests there were."""
    return {
        "rows_tested_on_blocks": tested,
        "screen_false_discovery_rate": policy.screen.fdr,
        "screen_rate_per_look": policy.screen.fdr / len(policy.screen.looks),
        "confirm_chance_of_any_false_regression": policy.confirm.alpha,
        "confirm_rate_per_look": policy.confirm.alpha / len(policy.confirm.processes),
        "geomean_tests": len(tests),
        "geomean_chance_of_a_false_alarm_each": policy.geomean.alpha,
    }
