"""Visits, blocks and processes of one row: what is averaged, what is tamed, and whose disagreement counts."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from gate.analysis.arm import Arm, of_outcome
from gate.analysis.blocks import _robust_variance, of_contrasts
from gate.analysis.contrast import Contrast, contrasts_of, tame
from gate.analysis.estimate import Estimate, Pair
from gate.model.outcome import Results
from gate.model.policy import Policy
from tests.analysis import build


def test_processes_are_averaged_and_their_disagreement_counts() -> None:
    ledger = build.ledger(12)
    labels = (0, 0, 0, 0, 1, 1, 1, 1)

    def labelled(run: Results, shift: float) -> Results:
        rows = []
        for row in run.outcomes:
            assert row.blocks_us is not None
            moved = tuple(
                tuple(visit * (1 + shift * process) for visit in block)
                for block, process in zip(row.blocks_us, labels, strict=True)
            )
            rows.append(build.outcome(ledger.shapes[0], row.provider, row.median_us, shape_id=row.shape_id,
                                      blocks_us=moved, block_process=labels))  # fmt: skip
        return Results(outcomes=tuple(rows))

    base = labelled(build.run(ledger, seed=1), 0.0)
    agree = build.row(build.decide(ledger, base, labelled(build.run(ledger, seed=2), 0.0)), 3)
    apart = build.row(build.decide(ledger, base, labelled(build.run(ledger, seed=2), 0.04)), 3)
    assert agree.ci is not None
    assert apart.ci is not None
    assert apart.ratio == pytest.approx(1.02, rel=0.003)
    assert apart.ci[1] - apart.ci[0] > 5 * (agree.ci[1] - agree.ci[0])
    assert apart.verdict == "inconclusive"


def test_a_visit_that_lies_alone_is_brought_in_to_the_others() -> None:
    rng = np.random.default_rng(5)
    base, head = rng.normal(scale=0.002, size=(2, 8, 2))
    quiet = tame(base, head)
    head[3, 1] += 0.08
    disturbed = tame(base, head)
    assert np.abs(disturbed - quiet).max() < 0.012
    assert np.delete(disturbed, 3) == pytest.approx(np.delete(quiet, 3), abs=0.001)


def test_a_slowdown_of_every_visit_is_left_as_it_is() -> None:
    rng = np.random.default_rng(6)
    base, head = rng.normal(scale=0.002, size=(2, 5, 6, 2))
    assert tame(base, head + 0.05) == pytest.approx(tame(base, head) + 0.05)


def test_a_step_of_the_clock_between_two_visits_cancels() -> None:
    base, head = np.array([[0.0, 0.04], [0.0, 0.0]]), np.array([[0.0, 0.04], [0.0, 0.0]])
    assert tame(base, head).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("processes", [1, 4, 8])
def test_the_variance_of_a_block_is_the_same_however_many_processes_share_the_blocks(processes: int) -> None:
    rng = np.random.default_rng(7)
    d = rng.normal(size=(4000, 16))
    parts = np.split(d, processes, axis=1)
    residual = np.concatenate([part - part.mean(axis=1, keepdims=True) for part in parts], axis=1)
    variance, _ = _robust_variance(residual, centres=processes)
    assert variance.mean() == pytest.approx(1.0, rel=0.25)


def test_many_processes_that_disagree_answer_for_themselves() -> None:
    ledger = build.ledger(12)
    labels = tuple(index // 2 for index in range(16))

    def run(seed: int, wild: float) -> Results:
        made = build.run(ledger, seed=seed, k=16)
        rows = []
        for index, row in enumerate(made.outcomes):
            assert row.blocks_us is not None
            shift = wild if index == 16 else 0.0
            moved = tuple(
                tuple(visit * (1 + shift * (process % 2)) for visit in block)
                for block, process in zip(row.blocks_us, labels, strict=True)
            )
            rows.append(msgspec.structs.replace(row, blocks_us=moved, block_process=labels))
        return Results(outcomes=tuple(rows))

    base = run(1, 0.0)
    quiet, wild = (build.row(build.decide(ledger, base, run(2, shift)), 4) for shift in (0.0, 0.04))
    assert quiet.ci is not None
    assert wild.ci is not None
    assert wild.ci[1] - wild.ci[0] > 2 * (quiet.ci[1] - quiet.ci[0])
    assert wild.verdict != "regressed"


def test_a_row_of_many_processes_is_judged_by_itself_whatever_else_is_measured() -> None:
    rng = np.random.default_rng(11)
    labels = tuple(index // 2 for index in range(16))

    def contrast(noise: float) -> Contrast:
        d = rng.normal(0.02, noise, size=16)
        return Contrast(d=d, raw=d, visits=2, process=labels, aa=noise**2, surplus=False)

    one, others = contrast(0.01), [contrast(0.001) for _ in range(20)]

    def found(contrasts: list[Contrast]) -> Estimate:
        n = len(contrasts)
        return of_contrasts(
            contrasts, ops=["op"] * n, times_us=[10.0] * n, ceilings=[0.01] * n, policy=Policy(), n_tests=5
        )[0]

    assert found([one]) == found([one, *others])


@pytest.mark.parametrize("visits", [2, 4, 8])
def test_the_aa_variance_is_that_of_a_blocks_mean_whatever_the_visits(visits: int) -> None:
    rng, noise = np.random.default_rng(visits), 0.01
    shape = build.ledger(1).shapes[0]

    def side(blocks: int) -> Arm:
        times = np.exp(rng.normal(2.0, noise, size=(blocks, visits)))
        return of_outcome(build.outcome(shape, "flydsl", None, median_us=7.4, blocks_us=as_blocks(times)))

    (found,) = contrasts_of([Pair(shape=shape, base=side(60_000), head=side(60_000), ceiling=0.01)])
    assert found.visits == visits and not found.surplus and found.process is None
    # Head and base each contribute the variance of a mean over the visits.
    assert found.aa == pytest.approx(2 * noise**2 / visits, rel=0.03 if visits == 2 else 0.012)


def test_one_visit_shows_no_aa_variance_and_blocks_without_a_partner_are_dropped() -> None:
    shape = build.ledger(1).shapes[0]
    base, head = (
        of_outcome(build.outcome(shape, "flydsl", 10.0, blocks_us=((10.0,),) * n, block_process=(0, 0, 1, 1, 1)[:n]))
        for n in (4, 5)
    )
    (found,) = contrasts_of([Pair(shape=shape, base=base, head=head, ceiling=0.01)])
    assert (found.aa, found.visits, found.surplus, found.process) == (None, 1, True, (0, 0, 1, 1))
    assert found.d.tolist() == found.raw.tolist() == [0.0] * 4


def as_blocks(times: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[tuple[float, ...], ...]:
    """Rows of times as an outcome holds them."""
    return tuple(map(tuple, times.tolist()))
