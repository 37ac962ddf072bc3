"""The schema files on disk are what the models say, and they hold what real rows hold."""

import json

import pytest
from jsonschema import Draft202012Validator

from gate.ledgers.matrices import matrix
from gate.resources import schemas_dir
from gate.schemas.check import validator
from gate.schemas.generate import CONTRACTS, file_name, schema, text


@pytest.mark.parametrize("contract", sorted(CONTRACTS))
def test_the_file_on_disk_is_the_generated_one(contract):
    assert (schemas_dir() / file_name(contract)).read_text(encoding="utf-8") == text(contract)


@pytest.mark.parametrize("contract", sorted(CONTRACTS))
def test_the_schema_is_a_valid_draft_2020_12_schema_with_a_versioned_id(contract):
    found = schema(contract)
    Draft202012Validator.check_schema(found)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["$id"] == f"urn:flydsl-gate:{contract}:{CONTRACTS[contract][0]}"


def test_no_schema_file_is_left_over():
    on_disk = {path.name for path in schemas_dir().glob("*.schema.json")}
    assert on_disk == {file_name(contract) for contract in CONTRACTS}


def test_fields_that_a_contract_does_not_name_are_allowed():
    extended = {**matrix("rmsnorm"), "another_field": 1}
    assert list(validator("baseline_matrix").iter_errors(extended)) == []


def test_the_shape_id_pattern_is_part_of_the_ledger_schema():
    body = json.loads((schemas_dir() / file_name("shape_ledger")).read_bytes())
    assert body["$defs"]["Shape"]["properties"]["shape_id"]["pattern"] == "^sha1:[0-9a-f]{16}$"
