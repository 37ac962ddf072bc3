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
    best, weighted, base = [], [], []
    for finding in findings:
        if finding.speedup_vs_best is not None:
            best.append(finding.speedup_vs_best)
            if finding.weight is not None and finding.weight > 0:
                weighted.append((finding.speedup_vs_best, finding.weight))
        if finding.ratio is not None and finding.verdict in COMPARED:
            base.append(1 / finding.ratio)
    return Geomean(
        vs_best=geomean(best), weighted=weighted_geomean(weighted), vs_base=geomean(base), n=len(best), n_base=len(base)
    )


def standings(cells: Sequence[Cell], findings: Sequence[RowFinding]) -> tuple[Standing, ...]:
    """The standing of each op, stage, model and baseline."""
    return (
        *_grouped("op", findings, lambda finding: (finding.op_type,)),
        *_grouped("stage", findings, lambda finding: (finding.stage,)),
        *_grouped("model", findings, lambda finding: tuple(finding.model.split("|"))),
        *_baselines(cells, findings),
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


def _baselines(cells: Sequence[Cell], findings: Sequence[RowFinding]) -> Iterator[Standing]:
    speedups: dict[str, list[float]] = {}
    weighted: dict[str, list[tuple[float, float]]] = {}
    for cell, finding in zip(cells, findings, strict=True):
        for provider in cell.rivals:
            speedups.setdefault(provider, [])
            speedup = _against(cell, provider)
            if speedup is not None:
                speedups[provider].append(speedup)
                if finding.weight is not None and finding.weight > 0:
                    weighted.setdefault(provider, []).append((speedup, finding.weight))
    for provider, values in speedups.items():
        mean = Geomean(vs_best=geomean(values), weighted=weighted_geomean(weighted.get(provider, [])), n=len(values))
        yield Standing(by="baseline", name=provider, geomean=mean, rows=len(values))


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
