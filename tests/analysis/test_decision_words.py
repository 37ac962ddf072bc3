"""The decision word: the standing against the pinned baselines, and what rules a promotion out."""

from __future__ import annotations

import msgspec
import pytest

from gate.model.outcome import Results
from gate.model.shape import Weight
from tests.analysis import build

LEDGER = build.ledger()


def slowed(factor: float) -> tuple[Results, Results]:
    """Base and head that are equally far behind."""
    factors = dict.fromkeys(range(8), factor)
    return build.run(LEDGER, seed=1, factors=factors), build.run(LEDGER, seed=2, factors=factors)


@pytest.mark.parametrize(
    ("factor", "word", "headline"),
    [(1.0, "promote", "promote"), (1.05, "promote_with_guardrails", "promote"), (1.3, "tune_needed", "tune"),
     (2.04, "rewrite_needed", "tune")],
)  # fmt: skip
def test_the_standing_decides_where_nothing_got_slower(factor: float, word: str, headline: str) -> None:
    decision = build.decide(LEDGER, *slowed(factor))
    assert (decision.gate, decision.decision, decision.headline) == ("pass", word, headline)
    assert decision.geomean.vs_best == pytest.approx(1.02 / factor, rel=0.01)


def test_a_dropped_baseline_never_changes_what_best_means() -> None:
    base, head = slowed(1.0)
    decision = build.decide(LEDGER, base, build.drop(head, providers=["aiter"]))
    assert decision.gate == "pass"
    assert decision.decision == "tune_needed"
    assert decision.geomean.vs_best is None
    assert {row.best_baseline for row in decision.rows} == {"aiter"}
    assert [control.provider for control in decision.controls if control.absent] == ["aiter"]


def test_best_is_chosen_on_base_not_on_the_samples_compared() -> None:
    base, head = slowed(1.0)
    head = build.edit(head, 4, LEDGER, "triton", median_us=1.0, blocks_us=None)
    row = build.row(build.decide(LEDGER, base, head), 4)
    assert row.best_baseline == "aiter"


def test_best_comes_from_the_pinned_set_only() -> None:
    pinned = {"rmsnorm": build.matrix(baseline_set=("triton", "pytorch"))}
    decision = build.decide(LEDGER, *slowed(1.0), matrices=pinned)
    assert {row.best_baseline for row in decision.rows} == {"triton"}


@pytest.mark.parametrize("stage", ["synthetic", "diagnostic"])
def test_unreal_rows_alone_never_promote(stage: str) -> None:
    ledger = build.ledger(stage=stage)
    decision = build.decide(ledger, build.run(ledger, seed=1), build.run(ledger, seed=2))
    assert (decision.gate, decision.decision) == ("pass", "tune_needed")
    assert "synthetic_only" in decision.reasons


def test_a_failing_hot_row_rules_a_promotion_out() -> None:
    base, head = slowed(1.0)
    broken = {"benchmark_status": "failed", "median_us": None}
    decision = build.decide(LEDGER, build.edit(base, 4, LEDGER, **broken), build.edit(head, 4, LEDGER, **broken))
    assert decision.decision == "tune_needed"
    assert "hard_failure" in decision.reasons


def test_an_unlabelled_opaque_baseline_rules_a_promotion_out() -> None:
    shown = build.matrix()
    opaque = {**shown.providers, "aiter": build.provider("aiter", backend_visibility_required=True)}
    matrices = {"rmsnorm": msgspec.structs.replace(shown, providers=opaque)}
    base, head = slowed(1.0)
    assert build.decide(LEDGER, base, head, matrices=matrices).decision == "promote"
    silent = build.edit(head, 4, LEDGER, "aiter", provider_detail="")
    decision = build.decide(LEDGER, base, silent, matrices=matrices)
    assert decision.decision == "tune_needed"
    assert "opaque_baseline" in decision.reasons


def test_baselines_that_do_other_work_allow_guardrails_at_most() -> None:
    base, head = slowed(1.0)
    head = Results(
        outcomes=tuple(
            msgspec.structs.replace(row, includes_layout_conversion=True) if row.provider != "flydsl" else row
            for row in head.outcomes
        )
    )
    decision = build.decide(LEDGER, base, head)
    assert decision.decision == "promote_with_guardrails"
    assert {row.classification for row in decision.rows} == {"baseline_unfair_or_unmatched"}


def test_an_op_without_a_matrix_is_not_green() -> None:
    decision = build.decide(LEDGER, *slowed(1.0), matrices={})
    assert (decision.gate, decision.counts["not_run"]) == ("no_verdict", 8)


def test_weights_make_the_weighted_geomean() -> None:
    heavy = Weight(traffic_weight=9.0)
    shapes = (build.shape(5, weight=heavy), build.shape(6, weight=Weight(traffic_weight=1.0)), build.shape(7))
    ledger = msgspec.structs.replace(LEDGER, shapes=shapes)
    runs = [build.run(ledger, seed=seed, factors={0: 2.0}, noise=1e-6) for seed in (1, 2)]
    geomean = build.decide(ledger, *runs).geomean
    assert geomean.n == 3
    assert geomean.weighted == pytest.approx((0.51**9 * 1.02) ** 0.1, rel=1e-3)
    assert geomean.vs_best == pytest.approx((0.51 * 1.02 * 1.02) ** (1 / 3), rel=1e-3)


def test_standings_by_op_stage_model_and_baseline() -> None:
    ledger = build.ledger(model="One|Two")
    decision = build.decide(ledger, build.run(ledger, seed=1), build.run(ledger, seed=2))
    named = {(standing.by, standing.name): standing for standing in decision.standings}
    assert set(named) == {
        ("op", "rmsnorm"), ("stage", "model_config"), ("model", "One"), ("model", "Two"),
        ("baseline", "aiter"), ("baseline", "triton"), ("baseline", "pytorch"),
    }  # fmt: skip
    assert named["baseline", "pytorch"].geomean.vs_best == pytest.approx(2.0, rel=0.01)
