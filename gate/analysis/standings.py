"""Geometric means of the candidate's standing: overall and by op, stage, model and baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from gate.analysis.cells import Cell
from gate.model.decision import Geomean, RowFinding, Standing

# Verdicts of rows that were compared with base by their times.
COMPARED = frozenset({"regressed", "improved", "unchanged", "inconclusive", "waived"})


def geomean(values: Sequence[float]) -> float | None:
    """The geometric mean, None of nothing; summed exactly, so that the order of rows does not matter."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None


def weighted_geomean(values: Sequence[tuple[float, float]]) -> float | None:
    """The geometric mean of (value, weight) pairs, None without weight."""
    total = math.fsum(weight for _, weight in values)
    return math.exp(math.fsum(w * math.log(v) for v, w in values) / total) if total > 0 else None


def of_rows(findings: Iterable[RowFinding]) -> Geomean:
    """The geomeans of some findings: against best, weighted, and against base; n counts the rows with a standing."""
    rows = findings if isinstance(findings, (list, tuple)) else list(findings)
    rated = [(row.speedup_vs_best, row.weight) for row in rows if row.speedup_vs_best is not None]
    base = [1 / row.ratio for row in rows if row.ratio is not None and row.verdict in COMPARED]
    best = [speedup for speedup, _ in rated]
    weighted = [(speedup, weight) for speedup, weight in rated if weight is not None and weight > 0]
    return Geomean(
        vs_best=geomean(best), weighted=weighted_geomean(weighted), vs_base=geomean(base), n=len(best), n_base=len(base)
    )


class Against:
    """The speedups of the candidate against single baselines, some with a weight."""

    def __init__(self) -> None:
        self.speedups: dict[str, list[float]] = {}
        self.weighted: dict[str, list[tuple[float, float]]] = {}

    def pin(self, provider: str) -> None:
        """That a baseline is pinned, in the order in which they are shown."""
        self.speedups.setdefault(provider, [])

    def add(self, provider: str, found: Iterable[tuple[float, float | None]]) -> None:
        """More speedups against one baseline, each with its row's weight."""
        taken = list(found)
        self.speedups.setdefault(provider, []).extend([speedup for speedup, _ in taken])
        weighted = [(speedup, weight) for speedup, weight in taken if weight is not None and weight > 0]
        if weighted:
            self.weighted.setdefault(provider, []).extend(weighted)


def standings(findings: Sequence[RowFinding], against: Against) -> tuple[Standing, ...]:
    """The standing of each op, stage, model and baseline."""
    return (
        *_grouped("op", findings, lambda finding: (finding.op_type,)),
        *_grouped("stage", findings, lambda finding: (finding.stage,)),
        *_grouped("model", findings, lambda finding: tuple(finding.model.split("|"))),
        *_baselines(against),
    )


def _grouped(
    by: str, findings: Iterable[RowFinding], names: Callable[[RowFinding], tuple[str, ...]]
) -> Iterator[Standing]:
    groups: dict[str, list[RowFinding]] = {}
    for finding in findings:
        for name in names(finding):
            groups.setdefault(name, []).append(finding)
    for name, members in sorted(groups.items()):
        yield Standing(by=by, name=name, geomean=of_rows(members), rows=len(members))


def _baselines(against: Against) -> Iterator[Standing]:
    for provider, values in against.speedups.items():
        weighted = weighted_geomean(against.weighted.get(provider, []))
        mean = Geomean(vs_best=geomean(values), weighted=weighted, n=len(values))
        yield Standing(by="baseline", name=provider, geomean=mean, rows=len(values))


def against_each(cells: Sequence[Cell], found: Against) -> Against:
    """`found` with the standing of the cells' candidates against every single baseline."""
    for cell in cells:
        for provider in cell.rivals:
            speedup = _against(cell, provider)
            speedups = found.speedups.setdefault(provider, [])
            if speedup is not None:
                speedups.append(speedup)
                if (weight := cell.shape.weight.value) is not None and weight > 0:
                    found.weighted.setdefault(provider, []).append((speedup, weight))
    return found


def _against(cell: Cell, provider: str) -> float | None:
    mine, rival = cell.head_arm, cell.head[provider]
    if mine.time_us is None or rival.time_us is None or mine.outcome is None or rival.outcome is None:
        return None
    if (mine.outcome.timing_method, mine.outcome.cache_state) != (
        rival.outcome.timing_method,
        rival.outcome.cache_state,
    ):
        return None
    return rival.time_us / mine.time_us
