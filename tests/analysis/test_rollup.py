"""The roll-up of a run: it repeats the judge's own figures, and what it adds is right on runs made by hand."""

from __future__ import annotations

import math

import msgspec
import pytest

from gate.analysis.rollup import rollup
from gate.model.decision import Decision
from gate.model.outcome import Results
from gate.model.report import Rollup
from gate.model.shape import Weight
from tests.analysis import build

LEDGER = build.ledger(6)


def judged(base: Results, head: Results, **fields: object) -> tuple[Decision, Rollup]:
    decision = build.decide(LEDGER, base, head, **fields)
    return decision, rollup(decision, head=head, base=base, matrices={"rmsnorm": build.matrix()})


@pytest.fixture(scope="module")
def plain() -> tuple[Decision, Rollup]:
    return judged(build.run(LEDGER, seed=1), build.run(LEDGER, seed=2))


def test_each_baseline_has_the_geomean_that_the_decision_says(plain: tuple[Decision, Rollup]) -> None:
    decision, found = plain
    said = {each.name: each.geomean for each in decision.standings if each.by == "baseline"}
    assert {each.baseline for each in found.standoffs} == set(said)
    for each in found.standoffs:
        assert (each.geomean.vs_best, each.geomean.n) == (said[each.baseline].vs_best, said[each.baseline].n)
        assert each.ahead + each.level + each.behind == each.geomean.n == 6


def test_ahead_level_and_behind_follow_the_times() -> None:
    head = build.run(LEDGER, seed=2, noise=0.0, factors={0: 1.05, 1: 1.5})
    _, found = judged(build.run(LEDGER, seed=1), head)
    aiter = next(each for each in found.standoffs if each.baseline == "aiter")
    assert (aiter.ahead, aiter.level, aiter.behind) == (4, 1, 1)  # 1.02, 1.02 / 1.05, 1.02 / 1.5
    assert aiter.geomean.vs_best == pytest.approx(math.exp((6 * math.log(1.02) - math.log(1.05 * 1.5)) / 6))


def test_the_reference_is_marked_and_rows_that_only_it_covers_have_no_rival() -> None:
    ids = [LEDGER.shapes[index].shape_id for index in (0, 1)]
    base, head = (
        build.drop(build.run(LEDGER, seed=seed), shape_ids=ids, providers=("aiter", "triton")) for seed in (1, 2)
    )
    _, found = judged(base, head)
    assert {each.baseline: each.reference for each in found.standoffs} == {
        "aiter": False,
        "triton": False,
        "pytorch": True,
    }
    assert found.ops[0].rivalled.n == 4
    assert {each.baseline: each.geomean.n for each in found.standoffs} == {"aiter": 4, "triton": 4, "pytorch": 6}


def test_a_baseline_timed_in_another_way_is_not_paired() -> None:
    head = build.edit(build.run(LEDGER, seed=2), 0, LEDGER, "aiter", timing_method="eager_event")
    head = build.edit(head, 1, LEDGER, "aiter", includes_layout_conversion=True)
    _, found = judged(build.run(LEDGER, seed=1), head)
    aiter = next(each for each in found.standoffs if each.baseline == "aiter")
    assert (aiter.geomean.n, aiter.rows, aiter.unmatched) == (5, 6, 1)


def test_coverage_counts_every_provider_of_every_shape() -> None:
    head = build.edit(build.run(LEDGER, seed=2), 0, LEDGER, benchmark_status="failed", median_us=None)
    head = build.edit(head, 1, LEDGER, "aiter", benchmark_status="incorrect", correct=False)
    head = build.edit(head, 2, LEDGER, "aiter", median_us=0.0)
    head = build.drop(head, shape_ids=[LEDGER.shapes[3].shape_id], providers=["triton"])
    _, found = judged(build.run(LEDGER, seed=1), head)
    (cover,) = found.covers
    assert cover.providers == ("flydsl", "aiter", "triton", "pytorch")
    assert cover.off == {"hipblaslt": "GEMM only"}
    assert cover.counts["flydsl"] == {"failed": 1, "ok": 5}
    assert cover.counts["aiter"] == {"ok": 4, "incorrect": 1, "invalid_time": 1}
    assert cover.counts["triton"] == {"ok": 5, "missing": 1}
    assert [sum(counts.values()) for counts in cover.counts.values()] == [6] * 4
    cells = [cell for shape in cover.shapes for cell in zip(shape.states, shape.times_us, strict=True)]
    assert all((state == "ok") == (time is not None) for state, time in cells)


def test_two_ok_rows_of_one_identity_are_no_time() -> None:
    head = build.run(LEDGER, seed=2)
    wanted = ("aiter", LEDGER.shapes[0].shape_id)
    twice = [msgspec.structs.replace(row) for row in head.outcomes if (row.provider, row.shape_id) == wanted]
    head = Results(outcomes=(*head.outcomes, *twice))
    _, found = judged(build.run(LEDGER, seed=1), head)
    assert found.covers[0].counts["aiter"] == {"ok": 5, "duplicate": 1}
    assert next(each for each in found.standoffs if each.baseline == "aiter").geomean.n == 5


def test_without_results_nothing_is_said_of_coverage() -> None:
    decision, _ = judged(build.run(LEDGER, seed=1), build.run(LEDGER, seed=2))
    found = rollup(decision, head=Results(outcomes=()), matrices={})
    assert found.covers == () and found.host == () and found.noise == ()
    assert found.ops[0].rows == 6  # What the decision holds is still rolled up.


def test_without_a_matrix_the_results_say_who_ran() -> None:
    decision, with_matrix = judged(build.run(LEDGER, seed=1), build.run(LEDGER, seed=2))
    found = rollup(decision, head=build.run(LEDGER, seed=2), matrices={})
    assert {each.baseline: each.geomean for each in found.standoffs} == {
        each.baseline: each.geomean for each in with_matrix.standoffs
    }


def test_weights() -> None:
    weights = (3.0, 1.0, 0.0, None, 4.0, 2.0)
    ledger = msgspec.structs.replace(
        LEDGER,
        shapes=tuple(
            msgspec.structs.replace(shape, weight=Weight(traffic_weight=weight))
            for shape, weight in zip(LEDGER.shapes, weights, strict=True)
        ),
    )
    base, head = (
        build.edit(build.run(ledger, seed=seed, noise=0.0), 4, ledger, benchmark_status="failed", median_us=None)
        for seed in (1, 2)
    )
    decision = build.decide(ledger, base, head)
    (weight,) = rollup(decision, head=head, base=base, matrices={"rmsnorm": build.matrix()}).weights
    assert (weight.rows, weight.weighted_rows, weight.standing_rows) == (6, 4, 3)
    assert weight.covered == pytest.approx(0.6)
    product = math.prod(pull.factor for pull in weight.pulls)
    assert product == pytest.approx(weight.geomean.weighted)
    assert sum(pull.share for pull in weight.pulls) == pytest.approx(1.0)
    assert weight.pulls[0].share == pytest.approx(0.5)


def test_host_costs() -> None:
    head = build.run(LEDGER, seed=2, noise=0.0)
    head = Results(
        outcomes=tuple(
            msgspec.structs.replace(row, eager_median_us=(row.median_us or 0) + (20 if row.provider == "flydsl" else 5))
            for row in head.outcomes
            if row.provider != "triton"
        )
    )
    _, found = judged(build.run(LEDGER, seed=1), head)
    costs = {cost.provider: cost for cost in found.host}
    assert set(costs) == {"flydsl", "aiter", "pytorch"}
    assert costs["flydsl"].host_us == pytest.approx(20)
    assert costs["flydsl"].eager_vs_candidate is None
    mine = [time + 20 for time in build.TIMES[:6]]
    rival = [time * 1.02 + 5 for time in build.TIMES[:6]]
    ratio = math.exp(sum(math.log(a / b) for a, b in zip(mine, rival, strict=True)) / 6)
    assert costs["aiter"].eager_vs_candidate == pytest.approx(ratio)


def test_the_points_of_the_plots() -> None:
    more = {"effective_gbps": 2000.0, "effective_tflops": 4.0, "p10_us": 1.0, "p90_us": 1.1}
    head = build.run(LEDGER, seed=2, every=1.03)
    head = build.edit(head, 0, LEDGER, **{**more, "p10_us": 3.0, "p90_us": 3.3, "median_us": 3.1})
    base = build.edit(build.run(LEDGER, seed=1), 0, LEDGER, "aiter", timing_method="eager_event")
    _, found = judged(base, head)
    assert [(point.flop_per_byte, point.tflops) for point in found.roofline] == [(2.0, 4.0)]
    assert [point.spread for point in found.noise] == [pytest.approx(1.1)]
    assert found.roof is not None and found.roof.tb_per_s == 8.0
    assert {name: len(ratios) for name, ratios in found.controls.items()} == {"aiter": 5, "pytorch": 6, "triton": 6}
    assert all(ratio == pytest.approx(1.03, abs=0.02) for ratios in found.controls.values() for ratio in ratios)
