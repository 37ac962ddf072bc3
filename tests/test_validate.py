"""`gate validate` reports each bad line of a contract in one clear line."""

import json

import pytest

from gate import cli, store
from gate.ledgers.matrices import matrix_yaml
from gate.model.codegen import Metrics
from gate.model.problem import UnusableInput
from tests.validating import ledger_row, lines, one_fault, reidentified, result_row, run


def test_a_line_that_is_cut_off_names_its_line(tmp_path, capsys):
    text = lines(ledger_row()) + lines(ledger_row())[:50]
    assert one_fault(tmp_path, capsys, text).startswith(":2: not valid JSON at column ")


def test_an_unknown_enum_value_names_the_field_and_the_allowed_values(tmp_path, capsys):
    fault = one_fault(tmp_path, capsys, lines(ledger_row(), ledger_row(stage="warmup")))
    assert fault.startswith(":2: stage: 'warmup' is not one of decode, ")


def test_an_unknown_value_of_a_field_that_may_be_null(tmp_path, capsys):
    fault = one_fault(tmp_path, capsys, lines(result_row(timing_method="stopwatch")))
    assert fault.startswith(":1: timing_method: 'stopwatch' is not one of ")
    assert "null" in fault


def test_a_wrong_shape_id_says_the_right_one(tmp_path, capsys):
    right = ledger_row()["shape_id"]
    fault = one_fault(tmp_path, capsys, lines(ledger_row(shape_id="sha1:0000000000000000")))
    assert fault == f":1: shape_id sha1:0000000000000000 is not {right}, the id of its fields"


def test_a_shape_twice_names_both_lines(tmp_path, capsys):
    fault = one_fault(tmp_path, capsys, lines(ledger_row(), ledger_row(notes="again")))
    assert fault.startswith(":2: sha1:") and fault.endswith(" is already on line 1")


def test_a_result_twice_names_both_lines(tmp_path, capsys):
    fault = one_fault(tmp_path, capsys, lines(result_row(), result_row(provider="ck"), result_row()))
    assert fault == ":3: sha1:0123456789abcdef, flydsl is already on line 1"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_no_number_is_refused(tmp_path, capsys, number):
    text = lines(result_row(median_us="X")).replace('"X"', number)
    assert number in one_fault(tmp_path, capsys, text)


def test_a_missing_field_is_named(tmp_path, capsys):
    row = ledger_row()
    del row["weight"], row["notes"]
    assert one_fault(tmp_path, capsys, lines(row)) == ":1: lacks weight, notes"


@pytest.mark.parametrize(
    ("row", "lacking"),
    [
        ({"shape_id": "sha1:0", "provider": "flydsl", "median_us": 5.0}, "lacks run_id, provider_detail"),
        ({"op_type": "vec_add", "dtype": "f32", "args": {"N": 8}}, "lacks shape_id, kernel_name"),
    ],
)
def test_a_row_that_is_no_more_than_begun_is_told_all_that_it_lacks(tmp_path, capsys, row, lacking):
    assert lacking in one_fault(tmp_path, capsys, json.dumps(row) + "\n")


def test_one_line_has_one_line_of_report_however_much_is_wrong(tmp_path, capsys):
    row = ledger_row(stage=1, dtype=2, arch=3, gpu=4, notes=5)
    assert one_fault(tmp_path, capsys, lines(row)).endswith("; and 2 more")


def test_a_key_twice_in_an_object_is_refused(tmp_path, capsys):
    text = lines(ledger_row()).replace('"notes": ""', '"notes": "", "notes": "x"')
    assert one_fault(tmp_path, capsys, text) == ":1: the key 'notes' stands twice in one object"


def test_yaml_faults_have_their_line(tmp_path, capsys):
    text = matrix_yaml("gemm").replace("op_type: gemm", "op_type: [gemm")
    assert one_fault(tmp_path, capsys, text) == ":4: not valid YAML: expected ',' or ']', but got ':'"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("enabled: true", "enabled: perhaps", "is not boolean"),
        ("  gluon:\n", "  cublas:\n", "cublas"),
        ("candidate_provider: flydsl", "candidate_provider: other", "candidate_provider other is not among"),
        ("gate.replay.providers.flydsl:gemm", "gate.replay.providers.flydsl", "does not match"),
    ],
)
def test_a_wrong_matrix(tmp_path, capsys, old, new, words):
    assert words in one_fault(tmp_path, capsys, matrix_yaml("gemm").replace(old, new, 1))


def test_a_disabled_provider_needs_a_reason(tmp_path, capsys):
    text = "kernel: k\nop_type: k\ndtype: bf16\nproviders:\n"
    for name, enabled in (("flydsl", "true"), ("pytorch", "true"), ("ck", "false")):
        text += f'  {name}: {{enabled: {enabled}, provider: {name}, entrypoint: "a.b:c"}}\n'
    assert one_fault(tmp_path, capsys, text).endswith("providers.ck is disabled without a skip_reason")


def test_a_csv_line_with_another_number_of_columns(tmp_path, capsys):
    text = "Kind,Kernel_Name,Start_Timestamp,End_Timestamp\nA,k,1,2\nA,k,1\n"
    assert one_fault(tmp_path, capsys, text) == ":3: 3 columns, the header has 4"


WAIVER = """[[waiver]]
shape_id = "sha1:f172b306801a5d10"
provider = "flydsl"
max_ratio = 1.25
expires = 2099-01-01
reason = "accepted for now"
issue = "https://example.org/1"
"""


def test_a_policy_and_waivers_are_checked_key_by_key(tmp_path, capsys):
    (tmp_path / "waivers").write_text(WAIVER)
    (tmp_path / "policy").write_text("[ceilings]\n")
    code, out, err = run(capsys, tmp_path / "waivers", tmp_path / "policy")
    assert (code, err) == (0, [])
    assert [line.split(": ")[1].split(",")[0] for line in out] == ["waivers", "policy"]
    assert "unknown key ceilingz" in one_fault(tmp_path, capsys, "[ceilingz]\nslower = 1.05\n")
    assert "max_ratio" in one_fault(tmp_path, capsys, WAIVER.replace("1.25", '"much"'))


def test_a_name_cannot_steer_the_terminal(tmp_path, capsys):
    text = json.dumps({"\x1b[31mm\nx": {"later": [{"N": 1}], "rmsnorm": [{"N": 1}]}})
    assert one_fault(tmp_path, capsys, text).startswith(": \ufffd[31mm\ufffdx: kernel key 'later' is not known; ")


METRICS = dict.fromkeys(Metrics.__struct_fields__, 1) | {"mix": {"s_barrier": 1}}
TOOLCHAIN = {"flydsl_version": "1", "llvm": "1", "kernels": "k", "kernels_sha": "0", "arch": "gfx950"}
RECORD = {
    "compile_key": "k",
    "op_type": "gemm",
    "dtype": "bf16",
    "constexprs": {},
    "status": "ok",
    "arch": "gfx950",
    "toolchain": TOOLCHAIN,
    "kernel": "k_0",
    "isa_sha": "a",
    "metrics": METRICS,
}


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": None},
        {"kernel": None},
        {"kernel": ""},
        {"isa_sha": None},
        {"op_type": "../x"},
        *({"metrics": {**METRICS, "instructions": count}} for count in (-1, 2**31, 10**30)),
        *({"metrics": {**METRICS, "waves_per_simd": count}} for count in (-1, 9)),
        {"metrics": {**METRICS, "mix": {"s_barrier": -1}}},
    ],
)
def test_a_codegen_record_that_cannot_be_is_refused_by_validate_and_by_the_store(tmp_path, capsys, change):
    path = tmp_path / "codegen_records.jsonl"
    path.write_text(lines(RECORD))
    assert run(capsys, path)[0] == 0
    assert list(store.read_codegen([path])) == ["k"]
    path.write_text(lines(RECORD, {**RECORD, "compile_key": "other", **change}))
    code, _, err = run(capsys, path)
    assert (code, len(err)) == (2, 1)
    assert err[0].startswith(f"{path}:2: ")
    with pytest.raises(UnusableInput, match=":2: refused"):
        store.read_codegen([path])


def test_a_record_that_did_not_compile_needs_no_code(tmp_path, capsys):
    failed = {**RECORD, "status": "failed", "kernel": None, "isa_sha": None, "metrics": None}
    (tmp_path / "records").write_text(lines(failed))
    assert run(capsys, tmp_path / "records")[0] == 0
    assert store.read_codegen([tmp_path / "records"])["k"].status == "failed"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"args": {"M": -1, "N": 1}}, "M is '-1', not a positive whole number"),
        ({"args": {"M": 1, "N": 0}}, "N is '0', not a positive whole number"),
        ({"dtype": "bfloat9"}, "dtype: 'bfloat9' is not one of bf16, "),
        ({"op_type": "nosuch"}, "no op 'nosuch' is known"),
        ({"op_type": "../x"}, "op_type: '../x' does not match"),
    ],
)
def test_a_ledger_row_that_no_kernel_has(tmp_path, capsys, change, words):
    row = ledger_row(**reidentified(**change))
    assert one_fault(tmp_path, capsys, lines(ledger_row(), row)).startswith(f":2: {words}"[:40])
    (tmp_path / "op").mkdir()
    (tmp_path / "op" / "shape_ledger.jsonl").write_text(lines(row))
    assert cli.run(["ledger", "check", str(tmp_path / "op")]) == 2
    assert "shape_ledger.jsonl:1: " in capsys.readouterr().err


def test_a_row_of_regressions_is_checked(tmp_path, capsys):
    known = {"op_type": "gemm", "model": "m", "stage": "decode", "dtype": "bf16", "args": {}}
    row = {"shape_id": "sha1:0123456789abcdef", "provider": "flydsl", "verdict": "unchanged", "reasons": [], **known}
    (tmp_path / "good").write_text(lines(row))
    assert run(capsys, tmp_path / "good")[:2] == (0, [f"{tmp_path}/good: regressions, 1 record, valid"])
    assert one_fault(tmp_path, capsys, lines({**row, "verdict": "nicer"})).startswith(":1: verdict: 'nicer' is not")
