"""A run rolled up for the reports: by op, baseline, weight and provider, and the points of the plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from gate.analysis import coverage_grid
from gate.analysis import rollup_points as points
from gate.analysis.book import Book, open_book
from gate.analysis.cells import Cell, lay_out
from gate.analysis.standings import geomean as plain_geomean
from gate.analysis.standings import of_rows, weighted_geomean
from gate.model.decision import Decision, Geomean, RowFinding
from gate.model.ledger import Ledger
from gate.model.matrix import Matrix, MatrixProvider
from gate.model.outcome import MeasuredResults, Results
from gate.model.policy import Policy
from gate.model.report import HostCost, OpTally, OpWeight, Rollup, RowPull, Standoff
from gate.model.shape import Shape, Source, Weight

# Where "level" begins is the classification's `ok`: 0.95 of the best baseline.
LEVEL = 0.95
MOST_PULLS = 20
NOTHING = Results(outcomes=())
AnyResults = Results | MeasuredResults
Judged = tuple[Cell, RowFinding]


def rollup(
    decision: Decision, *, head: AnyResults, base: AnyResults = NOTHING, matrices: Mapping[str, Matrix]
) -> Rollup:
    """The roll-up of a decision and the results it was made from.

    Arms are taken exactly as the judge takes them: duplicates, impossible and refused rows have no time here either.
    `matrices` by op_type; an op without one is read from the results (every provider that ran, all of them rivals).
    Without any result row there is no coverage to tell, which is not the same as nothing covered.
    """
    now, was = open_book(head), open_book(base)
    known = {**implied(decision, now), **matrices}
    ledger = Ledger(shapes=tuple(shape_of(row) for row in decision.rows))
    policy = msgspec.convert(decision.policy, Policy)
    cells = lay_out(ledger, known, base=was, head=now, policy=policy)
    ops: dict[str, list[Judged]] = {}
    for cell, row in zip(cells, decision.rows, strict=True):
        ops.setdefault(row.op_type, []).append((cell, row))
    return Rollup(
        standoffs=tuple(found for op in sorted(ops) for found in _standoffs(op, ops[op])),
        ops=tuple(_tally(op, [row for _, row in ops[op]]) for op in sorted(ops)),
        weights=tuple(_weights(op, [row for _, row in ops[op]]) for op in sorted(ops)),
        host=tuple(found for op in sorted(ops) for found in _host(op, ops[op])),
        covers=()
        if now.empty
        else tuple(coverage_grid.cover(op, [cell for cell, _ in ops[op]], now, known[op]) for op in sorted(ops)),
        roofline=tuple(points.roofline(cells)),
        roof=points.roof(cells),
        noise=tuple(points.noise(cells)),
        controls=points.controls(cells),
    )


def shape_of(row: RowFinding) -> Shape:
    """The shape of a finding, as far as a finding holds it: enough for its arms and its physics."""
    return Shape(
        shape_id=row.shape_id,
        op_type=row.op_type,
        kernel_name=row.op_type,
        model=row.model,
        stage="mixed",
        arch="",
        gpu="",
        dtype=row.dtype,
        layout={},
        args=row.args,
        source=Source(kind="manual"),
        weight=Weight(traffic_weight=row.weight),
        baselines_available=(),
        notes="",
    )


def implied(decision: Decision, book: Book) -> dict[str, Matrix]:
    """The matrix that the results themselves suggest, per op of the decision."""
    candidates = {row.op_type: row.provider for row in decision.rows}
    ops = {row.shape_id: row.op_type for row in decision.rows}
    ran: dict[str, dict[str, bool]] = {op: {candidate: True} for op, candidate in candidates.items()}
    for outcome in book:
        op = ops.get(outcome.shape_id)
        if op is not None:
            on = outcome.benchmark_status != "not_configured"
            ran[op][outcome.provider] = ran[op].get(outcome.provider, False) or on
    return {op: _implied(op, candidates[op], providers) for op, providers in ran.items()}


def _implied(op: str, candidate: str, providers: Mapping[str, bool]) -> Matrix:
    entries = {
        name: MatrixProvider(enabled=on, entrypoint="results:rows", provider=name) for name, on in providers.items()
    }
    return Matrix(kernel=op, op_type=op, dtype="", providers=entries, candidate_provider=candidate)


def _standoffs(op: str, judged: Sequence[Judged]) -> Iterator[Standoff]:
    first = judged[0][0]
    for baseline in first.rivals:
        pairs = [(speedup, row.weight) for cell, row in judged if (speedup := against(cell, baseline)) is not None]
        speedups = [speedup for speedup, _ in pairs]
        unmatched = sum(1 for cell, _ in judged if _unmatched(cell, baseline))
        yield Standoff(
            op_type=op,
            baseline=baseline,
            rows=len(judged),
            geomean=Geomean(
                vs_best=plain_geomean(speedups),
                weighted=weighted_geomean([(speedup, w) for speedup, w in pairs if w]),
                n=len(pairs),
            ),
            reference=first.matrix is not None and baseline == first.matrix.reference_provider,
            unmatched=unmatched,
            **_spread(speedups),
        )


def against(cell: Cell, baseline: str) -> float | None:
    """A baseline's time over the candidate's in head, where one clock and one cache state timed both."""
    mine, rival = cell.head_arm, cell.head[baseline]
    if mine.time_us is None or rival.time_us is None or mine.outcome is None or rival.outcome is None:
        return None
    one, two = mine.outcome, rival.outcome
    same = (one.timing_method, one.cache_state) == (two.timing_method, two.cache_state)
    return rival.time_us / mine.time_us if same else None


def _unmatched(cell: Cell, baseline: str) -> bool:
    mine, rival = cell.head_arm.outcome, cell.head[baseline].outcome
    if mine is None or rival is None or against(cell, baseline) is None:
        return False
    return (mine.includes_layout_conversion or False) != (rival.includes_layout_conversion or False)


def _spread(speedups: Iterable[float]) -> dict[str, int]:
    counts = {"ahead": 0, "level": 0, "behind": 0}
    for speedup in speedups:
        counts["ahead" if speedup >= 1 else "level" if speedup >= LEVEL else "behind"] += 1
    return counts


def _tally(op: str, rows: Sequence[RowFinding]) -> OpTally:
    rivalled = [row for row in rows if "reference_only" not in row.baseline_reasons]
    return OpTally(
        op_type=op,
        rows=len(rows),
        rivalled=of_rows(rivalled),
        classes=_counted(row.classification for row in rows),
        statuses=_counted(row.status for row in rows),
        **_spread(row.speedup_vs_best for row in rows if row.speedup_vs_best is not None),
    )


def _counted(words: Iterable[str | None]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word or "none"] = counts.get(word or "none", 0) + 1
    return dict(sorted(counts.items()))


def _weights(op: str, rows: Sequence[RowFinding]) -> OpWeight:
    weighted = [row for row in rows if row.weight is not None and row.weight > 0]
    standing = [row for row in weighted if row.speedup_vs_best is not None]
    total = math.fsum(row.weight or 0.0 for row in weighted)
    covered = math.fsum(row.weight or 0.0 for row in standing)
    pulls = [_pull(row, covered) for row in standing]
    return OpWeight(
        op_type=op,
        rows=len(rows),
        weighted_rows=len(weighted),
        standing_rows=len(standing),
        covered=covered / total if total > 0 else 0.0,
        geomean=of_rows(standing),
        pulls=tuple(sorted(pulls, key=lambda pull: (-abs(math.log(pull.factor)), pull.shape_id))[:MOST_PULLS]),
    )


def _pull(row: RowFinding, total: float) -> RowPull:
    share, speedup = (row.weight or 0.0) / total, row.speedup_vs_best or 1.0
    return RowPull(shape_id=row.shape_id, share=share, speedup=speedup, factor=speedup**share)


def _host(op: str, judged: Sequence[Judged]) -> Iterator[HostCost]:
    """Eager and host costs, the candidate first; a row counts where it says both its kernel and its eager time."""
    first = judged[0][0]
    for provider in (first.candidate, *first.rivals):
        times = [pair for cell, _ in judged if (pair := _eager(cell, provider)) is not None]
        if not times:
            continue
        kernel, eager = np.array(times).T
        yield HostCost(
            op_type=op,
            provider=provider,
            n=len(times),
            kernel_us=float(np.median(kernel)),
            eager_us=float(np.median(eager)),
            host_us=float(np.median(eager - kernel)),
            eager_vs_candidate=None if provider == first.candidate else _eager_geomean(judged, provider),
        )


def _eager(cell: Cell, provider: str) -> tuple[float, float] | None:
    arm = cell.head[provider]
    eager = None if arm.outcome is None else arm.outcome.eager_median_us
    if arm.time_us is None or eager is None or not 0 < eager < math.inf:
        return None
    return arm.time_us, eager


def _eager_geomean(judged: Sequence[Judged], provider: str) -> float | None:
    pairs = [(_eager(cell, cell.candidate), _eager(cell, provider)) for cell, _ in judged]
    return plain_geomean([mine[1] / rival[1] for mine, rival in pairs if mine is not None and rival is not None])
