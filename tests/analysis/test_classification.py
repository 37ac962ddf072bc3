"""The eight categories, their order, the profiler trigger and the word on the launcher."""

from __future__ import annotations

from typing import Any

import pytest

from gate.analysis.classify import RULES
from gate.model.decision import CLASSIFICATIONS, RowFinding
from gate.model.outcome import Results
from gate.model.shape import Shape
from tests.analysis import build


def classified(us: float, rival_us: float = 100.0, *, one: Shape | None = None, **fields: Any) -> RowFinding:
    """The finding of one row with a rival; a 4096 x 8192 row on an idle-free GPU unless told otherwise."""
    shape = one or build.shape(4096)
    ledger = build.Ledger(shapes=(shape,))
    usual: dict[str, Any] = {"flydsl": us, "aiter": rival_us, "pytorch": 4 * rival_us}
    run = Results(
        outcomes=tuple(
            build.outcome(shape, name, time, **(fields if name == "flydsl" else {})) for name, time in usual.items()
        )
    )
    matrices = {shape.op_type: build.matrix(shape.op_type, rivals=("aiter", "pytorch"))}
    return build.row(build.decide(ledger, run, run, matrices=matrices), 0)


def test_the_rules_cover_the_categories_in_order() -> None:
    named = [rule.__module__.rpartition(".")[2] for rule in RULES]
    assert sorted(named) == sorted(CLASSIFICATIONS)
    assert named.index("measurement_issue") < named.index("baseline_unfair_or_unmatched") < named.index("ok")
    assert named[-1] == "tuning_gap"


CASES: list[tuple[float, dict[str, Any], str, str]] = [
    (100.0, {}, "ok", "100 us against 100 us of aiter (1.00x)"),
    (105.0, {}, "ok", "0.95x"),
    (125.0, {}, "tuning_gap", "0.80x"),
    (250.0, {}, "algorithm_gap", "0.40x"),
    (125.0, {"p10_us": 100.0, "p90_us": 150.0}, "measurement_issue", "p90/p10 of the candidate is 1.50"),
    (125.0, {"stable": False}, "measurement_issue", "marked unstable"),
    (125.0, {"provider_detail": "build(); path=generic-scalar"}, "implementation_gap", "path generic-scalar"),
    (125.0, {"provider_detail": "build(); path=fast-vectorized"}, "tuning_gap", "0.80x"),
    (0.0, {}, "measurement_issue", "median_us is 0"),
    (250.0, {"includes_layout_conversion": True}, "baseline_unfair_or_unmatched", "0.40x"),
]


@pytest.mark.parametrize(("us", "fields", "category", "evidence"), CASES)
def test_categories(us: float, fields: dict[str, Any], category: str, evidence: str) -> None:
    row = classified(us, **fields)
    assert row.classification == category
    assert evidence in row.evidence
    assert bool(row.likely_fix) == (category != "ok")


def test_a_shape_off_the_vector_path_is_an_implementation_gap() -> None:
    ragged = build.shape(4096, args={"M": 4096, "N": 7168})
    row = classified(125.0, one=ragged)
    assert row.classification == "implementation_gap"
    assert "N=7168 is no multiple of 2048" in row.evidence


def test_too_few_rows_for_the_compute_units_is_an_implementation_gap() -> None:
    row = classified(25.0, 20.0, one=build.shape(32))
    assert row.classification == "implementation_gap"
    assert "32 of 256 compute units" in row.evidence


def test_near_the_roofline_nothing_is_left_to_tune() -> None:
    # 2 x 32768 x 8192 x 2 bytes at 8 TB/s take 134 us.
    row = classified(170.0, 150.0, one=build.shape(32768))
    assert row.classification == "launch_or_roofline_limited"
    assert "79% of the GPU's peak" in row.evidence


def test_the_launch_floor_is_the_limit_of_a_short_one_launch_graph() -> None:
    one = build.shape(256)
    ledger = build.Ledger(shapes=(one,))
    times = {"flydsl": 15.0, "aiter": 13.0, "triton": 14.0, "pytorch": 20.0}
    run = Results(outcomes=tuple(build.outcome(one, name, us, timing_method="cudagraph") for name, us in times.items()))
    assert build.row(build.decide(ledger, run, run), 0).classification == "launch_or_roofline_limited"


def test_a_reference_alone_is_no_rival() -> None:
    one = build.shape(4096)
    run = Results(outcomes=(build.outcome(one, "flydsl", 50.0), build.outcome(one, "pytorch", 300.0)))
    row = build.row(build.decide(build.Ledger(shapes=(one,)), run, run), 0)
    assert row.classification == "baseline_unfair_or_unmatched"
    assert "reference" in row.evidence


def test_no_baseline_at_all() -> None:
    one = build.shape(4096)
    run = Results(
        outcomes=(
            build.outcome(one, "flydsl", 50.0),
            *(build.outcome(one, name, None, benchmark_status="unsupported") for name in build.RIVALS),
        )
    )
    row = build.row(build.decide(build.Ledger(shapes=(one,)), run, run), 0)
    assert (row.classification, row.baseline_reasons) == ("baseline_unfair_or_unmatched", ("no_baseline",))
    assert row.speedup_vs_best is None


PROFILED: list[tuple[float, dict[str, Any], str, bool]] = [
    (125.0, {}, "model_config", True),
    (125.0, {}, "decode", True),
    (125.0, {}, "synthetic", False),
    (110.0, {}, "model_config", False),
    (125.0, {"p10_us": 100.0, "p90_us": 150.0}, "model_config", False),
    (125.0, {"stable": False}, "model_config", False),
]


@pytest.mark.parametrize(("us", "fields", "stage", "profile"), PROFILED)
def test_the_profiler_trigger(us: float, fields: dict[str, Any], stage: str, profile: bool) -> None:
    assert classified(us, one=build.shape(4096, stage=stage), **fields).profile is profile


def test_the_launcher_is_judged_apart() -> None:
    row = classified(30.0, 30.0, host_overhead_us=45.0)
    assert row.classification == "ok"
    assert row.launcher == "the launcher adds 45 us to a kernel of 30 us"
    assert classified(30.0, 30.0, host_overhead_us=15.0).launcher == ""


def test_a_graph_that_misses_the_kernel_voids_its_launcher() -> None:
    shapes = tuple(build.shape(rows) for rows in (64, 128, 256))
    ledger = build.Ledger(shapes=shapes)
    graph = {"timing_method": "cudagraph"}
    eager = (900.0, 2800.0, 90.0)
    rows = [
        build.outcome(one, "flydsl", 42.0, eager_median_us=us, **graph) for one, us in zip(shapes, eager, strict=True)
    ]
    rows += [build.outcome(one, name, 300.0, eager_median_us=310.0, **graph) for one in shapes for name in build.RIVALS]
    decision = build.decide(ledger, Results(outcomes=tuple(rows)), Results(outcomes=tuple(rows)))
    assert {row.reasons for row in decision.rows} == {("partial_capture",)}
    assert decision.geomean.vs_best is None
    assert (decision.gate, decision.decision) == ("no_verdict", "blocked")
    long = [build.outcome(one, "flydsl", 42.0, eager_median_us=170.0, **graph) for one in shapes]
    decision = build.decide(ledger, Results(outcomes=tuple(long)), Results(outcomes=tuple(long)))
    assert decision.counts["not_comparable"] == 0
