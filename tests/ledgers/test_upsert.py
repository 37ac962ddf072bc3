"""An import replaces its own rows only, and repeating it changes nothing."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gate.ledgers.compare import compare
from gate.ledgers.draft import Draft, one_row_per_physical_shape, physical, rows
from gate.ledgers.upsert import upsert
from gate.model.shape import Source, Weight, canonical, expected_id, order_key
from tests.factory import make_shape

MANUAL = frozenset({"manual"})


def draft(model="a", stage="model_config", kind="model_config", n=64, **more):
    return Draft(
        op_type="rmsnorm",
        model=model,
        stage=stage,
        dtype="bf16",
        args={"M": 1, "N": n},
        source=Source(kind=kind),
        **more,
    )


def shape(n, kind="manual", **more):
    return make_shape(args={"M": 1, "N": n}, kind=kind, **more)


def test_only_the_own_kind_is_replaced():
    old = [shape(1), shape(2), shape(3, kind="sglang_trace")]
    change = upsert(old, [shape(2), shape(4)], kinds=MANUAL)
    assert [row.args["N"] for row in change.shapes] == [2, 3, 4]
    assert (change.added, change.removed, change.unchanged, change.kept) == (1, 1, 1, 1)


def test_a_changed_field_is_counted():
    change = upsert([shape(1)], [shape(1, notes="now with a note")], kinds=MANUAL)
    assert (change.changed, change.unchanged) == (1, 0)


def test_a_row_of_another_source_stays_and_takes_a_weight_it_lacked():
    weight = Weight(occurrences=5, traffic_weight=0.5)
    change = upsert([shape(1, kind="model_config")], [shape(1, weight=weight)], kinds=MANUAL)
    assert change.elsewhere == 1
    assert change.shapes[0].source.kind == "model_config"
    assert change.shapes[0].weight == weight


SHAPES = st.lists(st.builds(shape, st.integers(1, 6), st.sampled_from(["manual", "synthetic", "model_config"])))


@given(SHAPES, SHAPES)
def test_repeating_an_import_changes_nothing(old, new):
    first = upsert(old, new, kinds=MANUAL)
    again = upsert(first.shapes, new, kinds=MANUAL)
    assert again.shapes == first.shapes
    assert (again.added, again.removed, again.changed) == (0, 0, 0)


@given(SHAPES, SHAPES)
def test_ids_are_unique_and_the_order_is_the_ledgers(old, new):
    found = upsert(old, new, kinds=MANUAL).shapes
    assert len({row.shape_id for row in found}) == len(found)
    assert found == sorted(found, key=order_key)


@given(SHAPES, SHAPES)
def test_no_row_of_another_kind_is_lost(old, new):
    others = {row.shape_id for row in old if row.source.kind != "manual"}
    last = {row.shape_id: row.source.kind for row in old}
    others = {key for key in others if last[key] != "manual"}
    assert others <= {row.shape_id for row in upsert(old, new, kinds=MANUAL).shapes}


def test_models_of_one_shape_are_one_row():
    (row,) = rows([draft("a"), draft("b"), draft("a|c")], baselines={"rmsnorm": ("triton",)})
    assert row.model == "a|b|c"
    assert row.shape_id == expected_id(row)
    assert row.baselines_available == ("triton",)


def test_shares_of_occurrences_and_of_time():
    found = rows(
        [draft(n=1, occurrences=3, baseline_us=10.0), draft(n=2, occurrences=1, baseline_us=30.0)], baselines={}
    )
    assert [row.weight.traffic_weight for row in found] == [0.75, 0.25]
    assert [row.weight.baseline_time_weight for row in found] == [0.25, 0.75]
    assert [row.weight.value for row in found] == [0.25, 0.75]


def test_a_probe_of_a_shape_that_a_model_uses_is_dropped():
    found = one_row_per_physical_shape([draft("synthetic", "synthetic", "synthetic"), draft("a"), draft("b")])
    assert [(one.model, one.stage) for one in found] == [("a", "model_config"), ("b", "model_config")]


def test_a_traced_shape_takes_the_stage_of_the_trace():
    traced = draft("a", "decode", "sglang_trace", occurrences=2)
    (row,) = rows(one_row_per_physical_shape([draft("b"), traced]), baselines={})
    assert (row.model, row.stage, row.source.kind, row.weight.occurrences) == ("b|a", "decode", "sglang_trace", 2)


def test_a_shape_of_both_phases_is_mixed():
    both = [draft(stage=stage, kind="sglang_trace", occurrences=1) for stage in ("decode", "prefill")]
    (row,) = rows(one_row_per_physical_shape(both), baselines={})
    assert (row.stage, row.weight.occurrences) == ("mixed", 2)


def test_true_and_one_are_two_shapes():
    assert physical(make_shape(args={"x": True})) != physical(make_shape(args={"x": 1}))
    assert physical(make_shape(args={"x": 2.0})) == physical(make_shape(args={"x": 2}))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def _integral(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    return [_integral(item) for item in value] if isinstance(value, list) else value


@given(PLAIN)
def test_canonical_json_is_what_the_standard_library_writes(value):
    assert canonical(value) == json.dumps(_integral(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def test_what_differs_between_two_ledgers():
    old = [shape(1), shape(2), shape(3), shape(4, model="a")]
    new = [shape(1), shape(2, notes="new"), shape(4, model="a|b"), shape(5)]
    found = compare(old, new)
    assert [row.args["N"] for row in found.added] == [5]
    assert [row.args["N"] for row in found.removed] == [3]
    assert [(row.shape.args["N"], row.fields) for row in found.changed] == [(2, ("notes",))]
    assert [(row.old.model, row.new.model) for row in found.renamed] == [("a", "a|b")]
    assert found.same == 1
    assert not found.empty
    assert compare(old, old).empty


def test_a_row_encodes_and_decodes_to_itself():
    row = rows([draft(occurrences=1)], baselines={})[0]
    assert msgspec.json.decode(msgspec.json.encode(row), type=type(row)) == row
