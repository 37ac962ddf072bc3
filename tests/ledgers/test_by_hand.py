"""Manual lists, diagnostic probes, synthetic probes, serving anchors and model configs, through their commands."""

import json

import pytest

from gate import cli
from gate.ledgers import matrices, synthetic
from gate.ledgers.ops import DERIVE


def run(tmp_path, *arguments):
    into = tmp_path / "ledger.jsonl"
    code = cli.run(["ledger", "import", *map(str, arguments), "--into", str(into)])
    return code, [json.loads(line) for line in into.open()] if into.exists() else []


def written(tmp_path, text):
    path = tmp_path / "given"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_manual_list_in_json(tmp_path):
    entries = [
        {"op_type": "rmsnorm", "dtype": "bf16", "args": {"M": 2, "N": 64}, "model": "a", "notes": "why"},
        {"op_type": "rmsnorm", "dtype": "bf16", "args": {"M": 2, "N": 64}, "model": "b", "occurrences": 3},
    ]
    code, (row,) = run(tmp_path, "manual", written(tmp_path, json.dumps(entries)))
    assert code == 0
    assert (row["model"], row["notes"], row["source"]["kind"]) == ("a|b", "why", "manual")
    assert row["weight"]["occurrences"] == 3
    assert row["baselines_available"] == list(matrices.baselines("rmsnorm"))


def test_a_manual_list_in_yaml(tmp_path):
    text = "shapes:\n  - {op_type: gemm, dtype: f16, args: {M: 1, N: 2, K: 3}, stage: decode}\n"
    code, (row,) = run(tmp_path, "manual", written(tmp_path, text))
    assert (code, row["stage"], row["args"]) == (0, "decode", {"M": 1, "N": 2, "K": 3})


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{}", "missing required field `op_type`"),
        ('{"op_type": "rmsnorm", "dtype": "bf16", "args": {"M": 1}, "stage": "warm"}', "Invalid enum value 'warm'"),
        ('{"op_type": "rmsnorm", "dtype": "bf16", "args": {"M": 1}, "size": 3}', "unknown field `size`"),
        ('{"op_type": "", "dtype": "bf16", "args": {"M": 1}}', "must not be empty"),
        ('{"op_type": "rmsnorm", "dtype": "bf16", "args": {}}', "must not be empty"),
        ('{"op_type": "rmsnorm", "dtype": "bf16", "args": {"M": 1152921504606846976}}', "up to 2^40"),
        ('{"op_type": "rmsnorm", "dtype": "bf16", "args": {"M": 1}, "occurrences": -1}', "must not be negative"),
        ("3", "shape 0: "),
    ],
)
def test_an_entry_that_is_no_shape_is_told_with_its_position(tmp_path, capsys, entry, words):
    code, rows = run(tmp_path, "manual", written(tmp_path, f"[{entry}]"))
    error = capsys.readouterr().err
    assert (code, rows) == (2, [])
    assert "shape 0" in error
    assert words in error
    assert error.count("\n") == 1


def test_good_entries_are_imported_beside_bad_ones(tmp_path, capsys):
    good = {"op_type": "rmsnorm", "dtype": "bf16", "args": {"M": 1, "N": 64}}
    code, rows = run(tmp_path, "manual", written(tmp_path, json.dumps([good, {}])))
    assert (code, len(rows)) == (2, 1)
    assert "shape 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "not valid JSON"),
        ("- a: &x [1]\n  b: *x\n", "aliases are not read"),
        ("- {args: {M: .nan}}\n", "is not JSON compliant"),
        ("- {when: 2026-01-01}\n", "is not JSON compliant"),
        ("- {1: 2}\n", "not plain data"),
        ('["\\ud800"]', "not"),
        ("plain words", "not a list of shapes"),
    ],
)
def test_a_file_that_is_no_list_is_one_line(tmp_path, capsys, text, words):
    code, rows = run(tmp_path, "manual", written(tmp_path, text))
    error = capsys.readouterr().err
    assert (code, rows) == (2, [])
    assert words in error
    assert error.count("\n") == 1


def test_diagnostic_probes(tmp_path):
    code, rows = run(tmp_path, "diagnostic", "--op", "rmsnorm", "32768,8192,bf16", "1,64,f32")
    assert code == 0
    assert {(row["args"]["M"], row["args"]["N"], row["dtype"]) for row in rows} == {
        (32768, 8192, "bf16"),
        (1, 64, "f32"),
    }
    assert {row["stage"] for row in rows} == {"diagnostic"}


@pytest.mark.parametrize("shape", ["1,2", "a,2,bf16", "0,2,bf16", "1,2,complex", "1,-2,bf16", "1,2,bf16,4"])
def test_a_wrong_diagnostic_is_wrong_usage(tmp_path, capsys, shape):
    code, rows = run(tmp_path, "diagnostic", "--op", "softmax", "--", shape)
    assert (code, rows) == (64, [])
    assert capsys.readouterr().err.count("\n") == 1


def test_an_op_of_more_than_two_sizes_has_no_diagnostic(tmp_path, capsys):
    assert run(tmp_path, "diagnostic", "--op", "gemm", "1,2,bf16")[0] == 64
    assert "gemm is not described by M,N,dtype" in capsys.readouterr().err


def test_every_op_has_probes_providers_and_a_derivation():
    assert synthetic.PROBES.keys() == DERIVE.keys()
    for op in synthetic.PROBES:
        drafts = synthetic.drafts(op)
        assert len({draft.physical for draft in drafts}) == len(drafts) >= 7
        assert all(draft.notes for draft in drafts)
        assert matrices.matrix(op)["op_type"] == op


def test_synthetic_rows_say_that_no_model_uses_them(tmp_path):
    code, rows = run(tmp_path, "synthetic", "--op", "flash_attn", "--op", "moe_gemm")
    assert code == 0
    assert {row["op_type"] for row in rows} == {"flash_attn", "moe_gemm"}
    assert {(row["stage"], row["source"]["kind"], row["model"]) for row in rows} == {("synthetic",) * 3}


ANCHORS = [{"input_len": 8192, "output_len": 1024, "concurrency": 8}, {"isl": 1024, "osl": 128, "conc": 512}]


def test_anchors_without_a_model_are_scenarios(tmp_path):
    code, rows = run(tmp_path, "atom", written(tmp_path, json.dumps(ANCHORS)))
    assert code == 0
    assert {row["op_type"] for row in rows} == {"serving_scenario"}
    assert {row["args"]["concurrency"] for row in rows} == {8, 512}


def test_anchors_with_a_model_are_kernel_shapes_without_weights(tmp_path):
    code, rows = run(tmp_path, "atom", written(tmp_path, json.dumps(ANCHORS)), "--model", "Qwen3-4B", "--op", "rmsnorm")
    kernels = [row for row in rows if row["op_type"] == "rmsnorm" and row["args"]["N"] == 2560]
    assert code == 0
    assert {(row["stage"], row["args"]["M"]) for row in kernels} == {
        ("prefill", 8 * 8192),
        ("decode", 8),
        ("prefill", 131072),
        ("decode", 512),
    }
    assert all(set(row["weight"].values()) == {None} for row in rows)
    (clipped,) = [row for row in kernels if row["args"]["M"] == 131072]
    assert "chunk of 524288 tokens" in clipped["notes"]
    assert clipped["source"]["concurrency"] == 512


@pytest.mark.parametrize("entry", [{}, {"input_len": 1}, {"input_len": 1, "output_len": 1, "concurrency": "8"}, 7])
def test_a_wrong_anchor_is_told(tmp_path, capsys, entry):
    code, rows = run(tmp_path, "atom", written(tmp_path, json.dumps([entry])))
    assert (code, rows) == (2, [])
    assert "scenario 0" in capsys.readouterr().err


def test_a_model_config_gives_every_op(tmp_path):
    code, rows = run(tmp_path, "model-config", "--model", "DeepSeek-R1", "--tp", "8", "--context", "4096")
    assert code == 0
    assert {"mla_decode", "moe_blockscale", "batched_gemm", "rmsnorm"} <= {row["op_type"] for row in rows}
    assert {row["model"] for row in rows} == {"DeepSeek-R1"}


def test_an_unknown_model_lists_the_known_ones(tmp_path, capsys):
    assert run(tmp_path, "model-config", "--model", "GPT-9")[0] == 64
    assert "Llama3 8B" in capsys.readouterr().err


def test_an_import_needs_exactly_one_target(tmp_path, capsys):
    assert cli.run(["ledger", "import", "synthetic"]) == 64
    both = ["--into", str(tmp_path / "a"), "--ledgers", str(tmp_path)]
    assert cli.run(["ledger", "import", "synthetic", *both]) == 64
    assert capsys.readouterr().err.count("give either --into FILE or --ledgers FOLDER") == 2
