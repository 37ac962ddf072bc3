"""Judged as columns or row by row, a run gives the same bytes, whatever is in it."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gate.analysis.judge import Inputs, judge
from gate.analysis.plain import columns, part
from gate.model.decision import CodeEvidence
from gate.model.ledger import Ledger
from gate.model.outcome import CACHE_STATES, STATUSES, TIMING_METHODS, Measured, MeasuredResults, Outcome
from gate.model.policy import Ceilings, Policy
from gate.model.problem import Problem
from gate.model.shape import Shape, Weight
from gate.model.waiver import Waiver
from tests.analysis import build

SHAPES = (
    *build.ledger(9).shapes,
    *(build.shape(7 + index, op_type="softmax", stage="synthetic", weight=Weight(traffic_weight=0.1 * index))
      for index in range(4)),
    build.shape(1, op_type="layernorm", model="A|B"),
)  # fmt: skip
LEDGER = Ledger(shapes=SHAPES)
MATRICES = {"rmsnorm": build.matrix(), "softmax": build.matrix("softmax", rivals=("triton", "pytorch"))}
seeds = st.integers(min_value=0, max_value=10**9)
RULES = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# What makes a row odd, or a kind of its own, or nothing at all.
CHANGES: dict[str, list[Any]] = {
    "benchmark_status": list(STATUSES),
    "correct": [False, None],
    "timing_method": [*TIMING_METHODS, None],
    "cache_state": [*CACHE_STATES, None],
    "gpu": ["NVIDIA H200", None],
    "torch_version": ["3.0"],
    "triton_version": ["9"],
    "driver_version": ["7", None],
    "baseline_commit": ["other"],
    "session_id": ["two", None],
    "stable": [True, False],
    "control": [True, False],
    "dispatch_bound": [True, False],
    "p10_us": [None, 0.0, 1e-3, 2.0],
    "p90_us": [None, 1e9, 5.0],
    "median_us": [None, 0.0, 0.003, 3.3, 3300.0, 1e6],
    "host_overhead_us": [None, 5.0, 80.0],
    "eager_median_us": [900.0],
    "provider_detail": ["", None, "path=scalar"],
    "includes_layout_conversion": [True, False],
    "shape_id": ["elsewhere", "sha1:0123456789abcdef", "SHA1:0123456789ABCDEF"],
    "provider": ["flydsl", "triton", "ck"],
    "blocks_us": [((3.0, 3.1),) * 4, ((3.0,),) * 3, ()],
    "floor_us": [2.0],
    "repeat_iters": [0, 1],
}


def row(one: Shape, name: str, time: float, **fields: Any) -> Outcome:
    given = {"p10_us": time * 0.99, "p90_us": time * 1.01, **fields}
    return build.outcome(one, name, time, **given)


def any_run(seed: int) -> MeasuredResults:
    """A run of plain rows, some of them changed, doubled, left out or refused."""
    rng = random.Random(seed)
    every = rng.choice([1.0, 1.0, 1.2, 0.7])
    session = rng.choice(["one", "one", "two", None])
    method = rng.choice(["graph_slope", "graph_slope", "graph_slope", "cudagraph", "eager_event"])
    rows = []
    for index, one in enumerate(SHAPES):
        behind = rng.choice([1.0, 1.0, 1.0, 1.1, 1.25, 3.0])
        for name, factor in {"flydsl": behind, **build.RIVALS}.items():
            time = build.TIMES[index % len(build.TIMES)] * factor * every * (1 + rng.gauss(0, 0.02))
            rows.append(row(one, name, time, session_id=session, timing_method=method))
    for _ in range(rng.choice([0, 3, 6, 20])):
        where, field = rng.randrange(len(rows)), rng.choice([*sorted(CHANGES), "scale", "spread"])
        if field in ("scale", "spread"):
            changed = stretched(rows[where], rng, at_once=field == "scale")
        else:
            changed = msgspec.structs.replace(rows[where], **{field: rng.choice(CHANGES[field])})
        if rng.random() < 0.5:
            rows[where] = changed
        else:
            rows.insert(rng.randrange(len(rows)), changed)
    for _ in range(rng.randrange(3)):
        del rows[rng.randrange(len(rows))]
    if rng.random() < 0.5:
        rng.shuffle(rows)
    refused = rng.choice([None, None, SHAPES[2].shape_id, "unknown"])
    provider = rng.choice([None, "aiter"])
    line = Problem(what="refused", file="x.jsonl", line=3, shape_id=refused, provider=provider)
    return MeasuredResults(outcomes=measured(rows), problems=(line,) if refused else ())


def stretched(row: Outcome, rng: random.Random, *, at_once: bool) -> Outcome:
    """All times of a row in another unit or below the hardware's bound; or its quantiles further apart."""
    if row.median_us is None:
        return row
    factor = rng.choice([1000.0, 0.001, 0.0001, 0.4, 1.3])
    low, high = (factor * 0.99, factor * 1.01) if at_once else (0.9, 1.15)
    time = row.median_us * (factor if at_once else 1.0)
    return msgspec.structs.replace(row, median_us=time, p10_us=row.median_us * low, p90_us=row.median_us * high)


def measured(rows: list[Outcome]) -> tuple[Measured, ...]:
    """The rows as a judgement reads them."""
    return tuple(msgspec.json.Decoder(Measured).decode_lines(b"\n".join(map(msgspec.json.encode, rows))))


def any_policy(seed: int) -> Policy:
    """The default policy, or one with ceilings."""
    rng = random.Random(seed)
    shapes: dict[str, float] = rng.choice([{}, {SHAPES[1].shape_id: 0.4}])
    ops: dict[str, float] = rng.choice([{}, {"rmsnorm": 0.2}])
    return msgspec.structs.replace(Policy(), ceilings=Ceilings(ops=ops, shapes=shapes))


def as_columns(run: MeasuredResults, pieces: int = 3) -> columns.Columns:
    step = max(len(run.outcomes) // pieces, 1)
    parts = [columns.of_rows(run.outcomes[at : at + step]) for at in range(0, len(run.outcomes), step)]
    return msgspec.structs.replace(columns.joined(parts), problems=run.problems)


def both(base: MeasuredResults, head: MeasuredResults, **fields: Any) -> tuple[bytes, bytes]:
    given: dict[str, Any] = {"ledger": LEDGER, "matrices": MATRICES, "today": date(2026, 6, 1), **fields}
    by_row = judge(Inputs(base=base, head=head, **given))
    by_column = judge(Inputs(base=as_columns(base), head=as_columns(head), **given))
    return msgspec.json.encode(by_row), msgspec.json.encode(by_column)


def same(by_row: bytes, by_column: bytes) -> bool:
    """Whether two decisions are the same bytes; said so that a failure shows the seed and not both decisions."""
    return by_row == by_column


@RULES
@given(seeds, seeds)
def test_the_same_bytes_as_row_by_row(one: int, two: int) -> None:
    assert same(*both(any_run(one), any_run(two), policy=any_policy(one)))


@RULES
@given(seeds, seeds)
def test_the_same_bytes_with_waivers_code_and_confirmation(one: int, two: int) -> None:
    waivers = tuple(
        Waiver(shape_id=one.shape_id, provider="flydsl", max_ratio=1.3, expires=date(2027, 1, 1), reason="r", issue="i")
        for one in SHAPES[:2]
    )
    code = {SHAPES[3].shape_id: CodeEvidence(compile_key="k", verdict="warn", findings=("spills",))}
    base, head = any_run(one), any_run(two)
    assert same(*both(base, head, waivers=waivers, code=code, confirm=(base, head)))


def oddities(row: Measured) -> list[Measured]:
    """The row with each single change, and with its times in other units or further apart."""
    assert row.median_us is not None
    changed = [msgspec.structs.replace(row, **{field: value}) for field, values in CHANGES.items() for value in values]
    for factor in (1000.0, 0.001, 0.0001, 0.4, 1.4):
        time = row.median_us * factor
        changed.append(msgspec.structs.replace(row, median_us=time, p10_us=time * 0.99, p90_us=time * 1.01))
    for low, high in ((0.8, 1.1), (0.95, 1.16), (0.9, 1.2)):
        changed.append(msgspec.structs.replace(row, p10_us=row.median_us * low, p90_us=row.median_us * high))
    return changed


@pytest.mark.parametrize("side", ["base", "head", "both"])
@pytest.mark.parametrize("provider", ["flydsl", "aiter", "pytorch"])
def test_every_single_oddity_gives_the_same_bytes(side: str, provider: str) -> None:
    runs = {"base": plain_run(1), "head": plain_run(2)}
    at = next(number for number, one in enumerate(runs["base"].outcomes) if one.provider == provider)
    base, head = (oddities(run.outcomes[at]) for run in runs.values())
    for was, now in zip(base, head, strict=True):
        given = {
            "base": replaced(runs["base"], at, was if side != "head" else None),
            "head": replaced(runs["head"], at, now if side != "base" else None),
        }
        by_row, by_column = both(given["base"], given["head"])
        assert same(by_row, by_column), (was, now)


def replaced(run: MeasuredResults, at: int, row: Measured | None) -> MeasuredResults:
    """The run with one row replaced, if there is one to take its place."""
    if row is None:
        return run
    return MeasuredResults(outcomes=(*run.outcomes[:at], row, *run.outcomes[at + 1 :]))


@RULES
@given(seeds)
def test_rows_come_back_from_columns_as_they_were(seed: int) -> None:
    run = any_run(seed)
    found = as_columns(run).outcomes
    assert [one.shape_id for one in found] == [one.shape_id for one in run.outcomes]
    assert found == run.outcomes


def plain_run(seed: int) -> MeasuredResults:
    rng = random.Random(seed)
    rows = [
        row(one, name, 5.0 * factor * (1 + rng.gauss(0, 0.001)))
        for one in SHAPES
        for name, factor in {"flydsl": 1.0, **build.RIVALS}.items()
    ]
    return MeasuredResults(outcomes=measured(rows))


@pytest.mark.parametrize("count", [1, 4])
def test_ordinary_shapes_are_judged_as_columns(count: int) -> None:
    base, head = (columns.joined([as_columns(plain_run(seed), count)]) for seed in (1, 2))
    found = part.part(LEDGER, MATRICES, base=base, head=head, policy=Policy(), singled_out=())
    # All but the op without a matrix.
    assert found.mask.tolist() == [True] * 13 + [False]
    assert [each.matrix.op_type for each in found.groups] == ["rmsnorm", "softmax"]
    assert found.others(LEDGER).shapes == SHAPES[13:]
    assert [len(left.outcomes) for left in found.left_over()] == [4, 4]


def test_a_shape_that_is_singled_out_is_not_plain() -> None:
    base, head = (as_columns(plain_run(seed)) for seed in (1, 2))
    singled = [SHAPES[5].shape_id, "unknown"]
    found = part.part(LEDGER, MATRICES, base=base, head=head, policy=Policy(), singled_out=singled)
    assert not found.mask[5]
    assert found.size == 12


def test_a_ledger_without_a_shape_and_times_beyond_all_bounds_are_judged_as_row_by_row(
    recwarn: pytest.WarningsRecorder,
) -> None:
    run = plain_run(1)
    refused = Ledger(shapes=(), problems=(Problem(what="refused", file="l.jsonl", line=1),))
    assert same(*both(run, run, ledger=refused))
    wide = msgspec.structs.replace(run.outcomes[0], p10_us=5e-324, p90_us=1e300)
    assert same(*both(run, replaced(run, 0, wide)))
    assert not recwarn.list
