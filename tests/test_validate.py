"""`gate validate` tells every file by its content and reports each bad line in one clear line."""

import json
import os

import pytest

from gate import cli, store
from gate.ledgers.matrices import matrix_yaml
from gate.model.codegen import Metrics
from gate.model.problem import UnusableInput
from gate.model.shape import Shape, Source, Weight, compute_shape_id
from gate.schemas.recognise import recognise
from gate.store import encode


def ledger_row(**changes):
    fields = {
        "op_type": "rmsnorm",
        "model": "Llama3 8B",
        "stage": "model_config",
        "dtype": "bf16",
        "layout": {"row_major": True},
        "args": {"M": 1, "N": 4096},
    }
    shape = Shape(
        shape_id=compute_shape_id(**fields),
        **fields,
        kernel_name="rmsnorm",
        arch="gfx950",
        gpu="MI350X",
        source=Source(kind="model_config"),
        weight=Weight(),
        baselines_available=("pytorch",),
        notes="",
    )
    return {**json.loads(encode(shape)), **changes}


def result_row(**changes):
    row = {
        "run_id": "r1",
        "shape_id": "sha1:0123456789abcdef",
        "provider": "flydsl",
        "provider_detail": None,
        "candidate_commit": None,
        "gpu": "MI350X",
        "arch": "gfx950",
        "rocm_version": "7.0",
        "correct": True,
        "warmup_iters": 10,
        "repeat_iters": 100,
        "benchmark_status": "ok",
        "median_us": 10.5,
    }
    return {**row, **changes}


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def run(capsys, *arguments):
    code = cli.run(["validate", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err.splitlines()


def one_fault(tmp_path, capsys, text, name="some.file"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    code, out, err = run(capsys, path)
    assert code == 2
    assert len(out) == 1
    assert len(err) == 1
    assert err[0].startswith(str(path))
    return err[0].removeprefix(str(path))


CODEGEN = {"compile_key": "k", "constexprs": {}}
RECOGNISED = {
    "shape_ledger": lines(ledger_row()),
    "benchmark_results": lines(result_row()),
    "codegen_records": lines(CODEGEN),
    "baseline_matrix": matrix_yaml("softmax"),
    "decision": '{"gate": "pass", "decision": "promote", "rows": []}',
    "status": '{\n "state": "success", "description": "fine"\n}',
    "ledger_lock": '{"op_type": "x", "files": {}}',
    "aiter_model_shapes": '{"A model": {"rmsnorm": [{"N": 64}]}}',
    "torch_trace": '{"schemaVersion": 1, "traceEvents": []}',
    "hf_config": '{"architectures": ["X"], "hidden_size": 64}',
    "sglang_log": "[2026-01-01] Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0\n",
    "rocprofv3_kernel_trace": '"Kind","Kernel_Name","Start_Timestamp","End_Timestamp"\n',
    "manual_shapes": '[{"op_type": "rmsnorm"}]',
    "toml": "[section]\nkey = 1\n",
    "empty": " \n",
    "unknown": "nothing that is known\n",
}


@pytest.mark.parametrize("contract", sorted(RECOGNISED))
def test_a_file_is_told_by_its_content(contract):
    assert recognise(RECOGNISED[contract].encode()) == contract


@pytest.mark.parametrize("contract", ["shape_ledger", "benchmark_results", "decision", "torch_trace"])
def test_a_file_that_is_cut_off_is_still_told(contract):
    text = RECOGNISED[contract]
    assert recognise(text[: len(text) - 4].encode()) == contract


def test_valid_files_pass(tmp_path, capsys):
    (tmp_path / "a").write_text(lines(ledger_row(), ledger_row(**reidentified(args={"M": 2, "N": 4096}))))
    (tmp_path / "b").write_text(lines(result_row(), result_row(provider="triton")))
    (tmp_path / "c").write_text(matrix_yaml("gemm"))
    code, out, err = run(capsys, tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert (code, err) == (0, [])
    assert [line.split(": ", 1)[1] for line in out] == [
        "shape_ledger, 2 records, valid",
        "benchmark_results, 2 records, valid",
        "baseline_matrix, 1 records, valid",
    ]


def reidentified(**changes):
    row = {**ledger_row(), **changes}
    identity = {key: row[key] for key in ("op_type", "model", "stage", "dtype", "layout", "args")}
    return {**changes, "shape_id": compute_shape_id(**identity)}


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
    assert one_fault(tmp_path, capsys, text).split(":")[1].isdigit()


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


def test_a_missing_file_and_an_unknown_one_are_told(tmp_path, capsys):
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00 neither this nor that")
    code, out, err = run(capsys, tmp_path / "absent", tmp_path / "x")
    assert code == 2
    assert "unreadable" in out[0] and "unknown" in out[1]
    assert len(err) == 2


def test_json_output(tmp_path, capsys):
    (tmp_path / "ledger").write_text(lines(ledger_row(), ledger_row(stage="x")))
    code, out, _ = run(capsys, "--json", tmp_path)
    found = json.loads("\n".join(out))
    assert code == 2
    assert found["valid"] is False
    assert found["files"][0]["contract"] == "shape_ledger"
    assert [problem["line"] for problem in found["files"][0]["problems"]] == [2]


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
    assert "\x1b" not in one_fault(tmp_path, capsys, text)


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


def own_folder(root):
    for name, text in {
        "comment.md": "# words\n- a list\n",
        "step_summary.md": "key = value\n",
        "isa/gemm.s": "\t.text\n",
        "compiled/abc.json": '{"status": "ok"}',
        "pages/index.json": "{}",
        "pages/gemm.html": "<html>",
        "plots/noise.svg": "<svg/>",
        ".lock": "",
        "regressions.jsonl": "",
        "results/benchmark_results.jsonl": lines(result_row()),
        "results/benchmark_results.csv": "shape_id,provider,benchmark_status\na,b,ok\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_folder_of_the_gates_own_outputs_is_valid(tmp_path, capsys):
    code, out, err = run(capsys, own_folder(tmp_path))
    assert (code, err) == (0, [])
    assert sum(line.endswith(", valid") for line in out) == 3
    skipped = " ".join(line for line in out if "skipped" in line)
    for name in ("comment.md and 1 more", "gemm.s", "abc.json", "index.json", "gemm.html", "noise.svg", ".lock"):
        assert name in skipped


def test_an_unknown_file_of_a_folder_is_told_and_skipped(tmp_path, capsys):
    (own_folder(tmp_path) / "stray").write_text("neither this nor that\n")
    os.mkfifo(tmp_path / "pipe")
    code, out, _ = run(capsys, tmp_path)
    assert code == 0
    assert f"{tmp_path}/stray: skipped, none of the contracts, nor a source that an importer reads" in out
    assert f"{tmp_path}/pipe: skipped, not a regular file" in out
    assert run(capsys, tmp_path / "stray")[0] == 2
    _, out, _ = run(capsys, "--json", tmp_path)
    assert len(json.loads("\n".join(out))["skipped"]) == 10


@pytest.mark.parametrize("name", ["decision.json", "shape_ledger.jsonl", "baseline_matrix.yaml", "policy.toml"])
def test_a_file_that_is_called_a_contract_is_never_skipped(tmp_path, capsys, name):
    (own_folder(tmp_path) / name).write_text("garbage\n")
    code, _, err = run(capsys, tmp_path)
    assert (code, len(err)) == (2, 1)


def test_a_folder_in_which_nothing_can_be_checked_is_not_valid(tmp_path, capsys):
    (tmp_path / "comment.md").write_text("x")
    code, out, err = run(capsys, tmp_path)
    assert (code, len(out), len(err)) == (2, 1, 1)


def test_a_row_of_regressions_is_checked(tmp_path, capsys):
    known = {"op_type": "gemm", "model": "m", "stage": "decode", "dtype": "bf16", "args": {}}
    row = {"shape_id": "sha1:0123456789abcdef", "provider": "flydsl", "verdict": "unchanged", "reasons": [], **known}
    (tmp_path / "good").write_text(lines(row))
    assert run(capsys, tmp_path / "good")[:2] == (0, [f"{tmp_path}/good: regressions, 1 records, valid"])
    assert one_fault(tmp_path, capsys, lines({**row, "verdict": "nicer"})).startswith(":1: verdict: 'nicer' is not")
