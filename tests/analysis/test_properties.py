"""What must hold for any run at all."""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gate.model.decision import Decision
from gate.model.ledger import Ledger
from gate.model.matrix import PROVIDERS
from gate.model.outcome import CACHE_STATES, STATUSES, TIMING_METHODS, Outcome, Results
from gate.model.reasons import SENTENCES
from tests.analysis import build

RULES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LEDGER = build.ledger(5)
seeds = st.integers(min_value=0, max_value=10_000)
times = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(min_value=1e-3, max_value=1e6),
    st.sampled_from([0.0, -1.0, 5e-324, 1.7e308, math.nan, math.inf]),
)


@st.composite
def rows(draw: st.DrawFn) -> Outcome:
    """Any row that the results contract lets through, and some that it does not."""
    visits = st.lists(times.map(lambda time: 0.0 if time is None else time), max_size=3).map(tuple)
    fields: dict[str, Any] = {
        "benchmark_status": draw(st.sampled_from(STATUSES)),
        "correct": draw(st.sampled_from([True, True, True, False, None])),
        "timing_method": draw(st.sampled_from([*TIMING_METHODS, "graph_slope", "graph_slope", None])),
        "cache_state": draw(st.sampled_from([*CACHE_STATES, None])),
        "gpu": draw(st.sampled_from(["AMD Instinct MI350X", "NVIDIA H200", None])),
        "p10_us": draw(times),
        "p90_us": draw(times),
        "eager_median_us": draw(times),
        "host_overhead_us": draw(times),
        "session_id": draw(st.sampled_from(["one", "two", None])),
        "blocks_us": draw(st.one_of(st.none(), st.lists(visits, max_size=7).map(tuple))),
        "block_process": draw(st.sampled_from([None, (), (0, 0, 1), (0, 1, 2, 3, 4, 5, 6)])),
    }
    one = draw(st.sampled_from(LEDGER.shapes))
    return build.outcome(one, draw(st.sampled_from(PROVIDERS)), draw(times), **fields)


results = st.lists(rows(), max_size=30).map(lambda found: Results(outcomes=tuple(found)))


def check(decision: Decision, ledger: Ledger) -> None:
    """What every decision promises."""
    assert [row.shape_id for row in decision.rows] == [one.shape_id for one in ledger.shapes]
    assert sum(n for verdict, n in decision.counts.items() if verdict != "total") == len(ledger.shapes)
    text = msgspec.json.encode(decision)
    for number in _numbers(msgspec.json.decode(text)):
        assert math.isfinite(number)
    _finite(decision)
    codes = {code for row in decision.rows for code in (*row.reasons, *row.baseline_reasons)} | {*decision.reasons}
    assert codes <= set(SENTENCES)
    assert all(row.reasons for row in decision.rows)
    assert (decision.gate == "pass") <= (decision.coverage.measured > 0)
    assert (decision.gate == "block") <= (decision.decision == "blocked")
    assert decision.gate == "pass" or not decision.decision.startswith("promote")


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in _numbers(item)]
    if isinstance(value, list | tuple):
        return [number for item in value for number in _numbers(item)]
    return [value] if isinstance(value, float) else []


def _finite(value: Any) -> None:
    """NaN and infinity encode as null, so look at the values themselves too."""
    assert all(map(math.isfinite, _numbers(msgspec.to_builtins(value))))


@RULES
@given(results, results)
def test_no_input_breaks_the_promises(base: Results, head: Results) -> None:
    check(build.decide(LEDGER, base, head), LEDGER)


@RULES
@given(results)
def test_a_run_against_itself_never_regresses(run: Results) -> None:
    decision = build.decide(LEDGER, run, run)
    assert not {"regressed", "newly_failed", "newly_incorrect", "improved"} & {row.verdict for row in decision.rows}
    assert decision.gate != "block"


@RULES
@given(seeds, st.floats(min_value=0.5, max_value=20.0))
def test_scaling_both_sides_leaves_the_ratios(seed: int, factor: float) -> None:
    base, head = build.run(LEDGER, seed=seed), build.run(LEDGER, seed=seed + 1, factors={2: 1.5})
    # A larger GPU number would meet the hardware's bound; only ratios are at issue here.
    scaled = [_scaled(run, factor) for run in (base, head)]
    one, two = build.decide(LEDGER, base, head), build.decide(LEDGER, *scaled)
    was, now = ([row.ratio for row in decided.rows] for decided in (one, two))
    assert len(was) == len(LEDGER.shapes) and None not in was
    assert now == pytest.approx(was, rel=1e-5)


def _scaled(run: Results, factor: float) -> Results:
    return Results(
        outcomes=tuple(
            msgspec.structs.replace(
                row,
                median_us=(row.median_us or 0.0) * factor,
                blocks_us=tuple(tuple(visit * factor for visit in block) for block in row.blocks_us or ()),
            )
            for row in run.outcomes
        )
    )


@RULES
@given(seeds, st.booleans())
def test_the_order_of_rows_changes_nothing(seed: int, blocks: bool) -> None:
    runs = [build.run(LEDGER, seed=seed + side, factors={1: 1.0 + side}, k=8 if blocks else None) for side in (0, 1)]
    shuffled = []
    for run in runs:
        order = list(run.outcomes)
        random.Random(seed).shuffle(order)
        shuffled.append(Results(outcomes=tuple(order)))
    assert msgspec.json.encode(build.decide(LEDGER, *runs)) == msgspec.json.encode(build.decide(LEDGER, *shuffled))


@RULES
@given(seeds, st.integers(min_value=0, max_value=11), st.floats(min_value=0.001, max_value=0.03), st.booleans())
@example(seed=106, index=4, noise=0.02734375, blocks=True)
def test_any_single_row_made_twice_as_slow_is_found(seed: int, index: int, noise: float, blocks: bool) -> None:
    ledger = build.ledger(12)
    k = 8 if blocks else None
    base = build.run(ledger, seed=seed, noise=noise, k=k)
    decision = build.decide(ledger, base, build.run(ledger, seed=seed + 1, noise=noise, factors={index: 2.0}, k=k))
    found = build.row(decision, index)
    if not blocks or found.verdict == "regressed":
        assert found.verdict == "regressed" and decision.gate == "block"
    else:
        # At such noise one process pair of a row cannot always establish it: a fresh session must.
        assert found.reasons == ("awaits_confirmation",) and decision.gate == "no_verdict"
        assert noise > 0.01


@RULES
@given(seeds)
def test_equal_inputs_give_equal_bytes(seed: int) -> None:
    base, head = build.run(LEDGER, seed=seed), build.run(LEDGER, seed=seed + 1)
    assert msgspec.json.encode(build.decide(LEDGER, base, head)) == msgspec.json.encode(
        build.decide(LEDGER, base, head)
    )
