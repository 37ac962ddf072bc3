"""Which result rows belong to a (shape, provider): one, several, refused, or none."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gate.analysis.plain.columns import AnyResults
from gate.model.outcome import AnyOutcome
from gate.model.problem import Problem

Key = tuple[str, str]


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """One run's rows by provider and shape_id; `extra` holds every row of an identity that occurs twice or more."""

    rows: dict[str, dict[str, AnyOutcome]]
    extra: dict[Key, tuple[AnyOutcome, ...]]
    refused: frozenset[Key]
    refused_shapes: frozenset[str]
    has_refused: bool

    def get(self, shape_id: str, provider: str) -> AnyOutcome | None:
        """The row of an identity, or the first of several."""
        of_provider = self.rows.get(provider)
        return None if of_provider is None else of_provider.get(shape_id)

    def is_refused(self, shape_id: str, provider: str) -> bool:
        """Whether a line of this identity was refused while reading."""
        return (shape_id, provider) in self.refused or shape_id in self.refused_shapes

    def __iter__(self) -> Iterator[AnyOutcome]:
        for of_provider in self.rows.values():
            yield from of_provider.values()

    @property
    def empty(self) -> bool:
        """Whether the run has no usable line at all."""
        return not any(self.rows.values())


def open_book(results: AnyResults) -> Book:
    """The rows of one run, indexed."""
    rows: dict[str, dict[str, AnyOutcome]] = {}
    extra: dict[Key, tuple[AnyOutcome, ...]] = {}
    for outcome in results.outcomes:
        of_provider = rows.setdefault(outcome.provider, {})
        if outcome.shape_id not in of_provider:
            of_provider[outcome.shape_id] = outcome
            continue
        key = (outcome.shape_id, outcome.provider)
        extra[key] = (*extra.get(key, (of_provider[outcome.shape_id],)), outcome)
    return Book(
        rows=rows,
        has_refused=bool(results.problems),
        extra=extra,
        refused=frozenset(_keys(results.problems)),
        refused_shapes=frozenset(p.shape_id for p in results.problems if p.shape_id and not p.provider),
    )


def _keys(problems: tuple[Problem, ...]) -> Iterator[Key]:
    for problem in problems:
        if problem.shape_id and problem.provider:
            yield problem.shape_id, problem.provider
