"""The compiled validator and the one that gives reasons are of one mind on every contract, on spoilt rows too."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate import store
from gate.resources import frozen_ledgers_dir
from gate.schemas.check import JSONL, quick, validator
from tests.validating import result_row

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


def _first(contract: str) -> dict[str, Any]:
    if contract == "benchmark_results":
        return result_row(blocks_us=[[1.0, 2.0]])
    name = {"shape_ledger": store.LEDGER_FILE, "codegen_records": f"baselines/gfx950/{store.CODEGEN_FILE}"}[contract]
    return dict(json.loads((frozen_ledgers_dir() / "rmsnorm" / name).read_bytes().splitlines()[0]))


@pytest.mark.parametrize("contract", ["benchmark_results", "shape_ledger", "codegen_records"])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_both_validators_say_the_same(contract: str, data: st.DataObject) -> None:
    row = copy.deepcopy(_first(contract))
    assert quick(contract).is_valid(row) and validator(contract).is_valid(row)
    key = data.draw(st.sampled_from([*sorted(row), "unheard_of"]))
    if data.draw(st.booleans()) and key in row:
        del row[key]
    else:
        row[key] = data.draw(VALUES)
    assert quick(contract).is_valid(row) == validator(contract).is_valid(row)


def test_every_contract_of_lines_has_both() -> None:
    assert all(quick(contract).is_valid([]) == validator(contract).is_valid([]) for contract in JSONL)
