"""AITER's model_shapes.json: every kernel key, its tool's sharding, and what is not understood."""

import json

import pytest

from gate import cli
from gate.ledgers.aiter_model_shapes import KERNELS, Sweep, read

ROPE = {"num_heads": 64, "num_kv_heads": 8, "head_dim": 128, "two_inputs": "true", "positions": "true"}
MHA = {"hq": 64, "hkv": 8, "dqk": 128, "dv": 128}
ENTRIES = {
    "gemm_a16w16": {"N": 128, "K": 4096, "TP_dim": None},
    "gemm_a8w8_per_token_scale": {"N": 1024, "K": 512, "TP_dim": "N"},
    "gemm_a8w8_blockscale": {"N": 1024, "K": 512, "TP_dim": "K"},
    "gemm_afp4wfp4": {"N": 1024, "K": 512, "TP_dim": "K"},
    "batched_gemm_a8w8": {"B": 128, "N": 512, "K": 128, "TP_dim": "B"},
    "batched_gemm_afp4wfp4": {"B": 128, "N": 512, "K": 128, "TP_dim": "null"},
    "batched_gemm_a16wfp4": {"B": 128, "N": 512, "K": 128, "TP_dim": "B"},
    "moe_op_gemm_a8w8": {"E": 128, "Dim1": 4096, "Dim2": 3072, "TopK": 8},
    "moe_op_gemm_a8w8_blockscale": {"E": 256, "Dim1": 7168, "Dim2": 4096, "TopK": 8},
    "moe_op_gemm_a8w4": {"E": 128, "Dim1": 2880, "Dim2": 5760, "TopK": 4},
    "moe_op_gemm_a4w4": {"E": 256, "Dim1": 7168, "Dim2": 4096, "TopK": 8},
    "rmsnorm": {"N": 4096},
    "fused_rms_mxfp4_quant": {"N": 4096},
    "rope": {**ROPE, "rotate_style": "neox"},
    "mha": {**MHA, "sink": True, "sliding_window_left": 128},
    "mla": {"comment": "Decode", "hq": 128, "hkv": 1, "dqk": 576, "dv": 512},
    "unified_attention": {**MHA, "block_size": 64, "sliding_window": 128},
}


def drafts(kernel, entry, **sweep):
    found = read({"a model": {kernel: [entry]}}, file="f", sweep=Sweep(**sweep))
    assert found.problems == ()
    assert found.counts == {kernel: len(found.drafts)}
    return found.drafts


def only(kernel, tp):
    return drafts(kernel, ENTRIES[kernel], m_values=(32,), tp=tp)[0].args


def test_every_kernel_key_has_an_entry_here():
    assert ENTRIES.keys() == KERNELS.keys()


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_each_key_gives_shapes_of_its_op(kernel):
    found = drafts(kernel, ENTRIES[kernel], m_values=(1, 32), batches=(1, 8), seq_lens=(512,))
    assert found
    for draft in found:
        assert draft.op_type == KERNELS[kernel].op
        assert draft.kernel_name == kernel


@pytest.mark.parametrize(
    ("kernel", "field", "whole", "eighth"),
    [
        ("gemm_a16w16", "N", 128, 128),
        ("gemm_a8w8_per_token_scale", "N", 1024, 128),
        ("gemm_a8w8_per_token_scale", "K", 512, 512),
        ("gemm_a8w8_blockscale", "K", 512, 64),
        ("batched_gemm_a8w8", "B", 128, 16),
        ("batched_gemm_afp4wfp4", "B", 128, 128),
        ("moe_op_gemm_a8w8", "Dim2", 3072, 384),
        ("moe_op_gemm_a8w8", "Dim1", 4096, 4096),
        ("rmsnorm", "N", 4096, 4096),
        ("rope", "num_heads", 64, 8),
        ("rope", "num_kv_heads", 8, 1),
        ("mha", "heads", 64, 8),
        ("mla", "heads", 128, 16),
        ("mla", "kv_heads", 1, 1),
        ("unified_attention", "kv_heads", 8, 1),
    ],
)
def test_sharding_over_one_and_eight_ranks(kernel, field, whole, eighth):
    assert only(kernel, 1)[field] == whole
    assert only(kernel, 8)[field] == eighth


def test_a_dimension_smaller_than_the_ranks_is_one():
    assert drafts("mha", {**MHA, "hkv": 4}, tp=8)[0].args["kv_heads"] == 1


def test_tokens_are_swept_and_attention_takes_batches_and_lengths_instead():
    assert [draft.args["M"] for draft in drafts("rmsnorm", {"N": 64}, m_values=(1, 7))] == [1, 7]
    found = drafts("mha", MHA, m_values=(1, 2, 3), batches=(1, 2), seq_lens=(64, 128))
    assert [(draft.args["batch"], draft.args["seq_k"]) for draft in found] == [(1, 64), (1, 128), (2, 64), (2, 128)]


def test_optional_fields_of_attention_are_kept():
    args = only("mha", 8)
    assert (args["window"], args["sink"]) == (128, True)
    assert only("unified_attention", 8)["block_size"] == 64
    assert "window" not in drafts("mha", MHA)[0].args


def test_an_unknown_key_is_told_and_the_others_are_imported():
    document = {"m": {"new_kernel": [{"N": 1}], "rmsnorm": [{"N": 64}]}}
    found = read(document, file="f", sweep=Sweep(m_values=(1,)))
    assert found.counts == {"rmsnorm": 1}
    assert [str(problem) for problem in found.problems] == [
        "f: m: kernel key 'new_kernel' is not known; add it to KERNELS in gate/ledgers/aiter_model_shapes.py; "
        "the other keys are imported"
    ]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "not an object of models"),
        ({"m": 1}, "m: not an object of kernels"),
        ({"m": {"rmsnorm": {}}}, "m: rmsnorm: not a list of shapes"),
        ({"m": {"rmsnorm": [1]}}, r"m: rmsnorm\[0\]: not an object"),
        ({"m": {"rmsnorm": [{}]}}, r"m: rmsnorm\[0\] lacks N"),
        ({"m": {"rmsnorm": [{"N": "64"}]}}, "N is '64', not a positive whole number"),
        ({"m": {"rmsnorm": [{"N": True}]}}, "not a positive whole number"),
        ({"m": {"rmsnorm": [{"N": 0}]}}, "not a positive whole number"),
        ({"m": {"rmsnorm": [{"N": 2**50}]}}, "not a positive whole number"),
        ({"m": {"gemm_a16w16": [{"N": 1, "K": 1, "TP_dim": "M"}]}}, "TP_dim must be one of N, K or null"),
        ({"m": {"gemm_a16w16": [{"N": 1, "K": 1, "TP_dim": ["N"]}]}}, "TP_dim must be one of"),
        ({"m": {"rope": [{**ROPE, "rotate_style": "other"}]}}, "rotate_style must be neox or gptj"),
        ({"m": {"rope": [{**ROPE, "rotate_style": "neox", "positions": 3}]}}, "positions must be true or false"),
    ],
)
def test_what_has_not_the_form_is_one_problem(document, words):
    found = read(document, file="f", sweep=Sweep())
    assert found.drafts == ()
    assert len(found.problems) == 1
    import re

    assert re.search(words, str(found.problems[0]))


def test_the_command_writes_a_folder_an_op_and_repeats_itself(tmp_path, capsys):
    source = tmp_path / "model_shapes.json"
    source.write_text(json.dumps({"a": {"rmsnorm": [{"N": 64}]}, "b": {"rmsnorm": [{"N": 64}], "mha": [MHA]}}))
    command = ["ledger", "import", "aiter-model-shapes", str(source), "--ledgers", str(tmp_path / "out"), "--tp", "1,8"]
    assert cli.run(command) == 0
    first = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.jsonl")}
    assert {path.parent.name for path in first} == {"rmsnorm", "flash_attn"}
    rows = [json.loads(line) for path in first if path.parent.name == "rmsnorm" for line in path.open()]
    assert {row["model"] for row in rows} == {"a|b"}
    assert [row["args"]["M"] for row in rows] == [1, 32, 256, 2048, 16384]
    capsys.readouterr()
    assert cli.run(command) == 0
    assert "0 added, 0 changed, 0 removed, 5 unchanged" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in first} == first


def test_an_unknown_key_makes_the_exit_code_2_but_not_the_import_fail(tmp_path, capsys):
    source = tmp_path / "shapes"
    source.write_text(json.dumps({"a": {"rmsnorm": [{"N": 64}], "later": [{}]}}))
    assert cli.run(["ledger", "import", "aiter-model-shapes", str(source), "--into", str(tmp_path / "l.jsonl")]) == 2
    assert "kernel key 'later' is not known" in capsys.readouterr().err
    assert (tmp_path / "l.jsonl").read_text().count("\n") == 5


@pytest.mark.parametrize("values", ["0", "x", "1,-2", "8:1:1", "1:8"])
def test_wrong_sizes_are_wrong_usage(tmp_path, capsys, values):
    source = tmp_path / "shapes"
    source.write_text("{}")
    command = [
        "ledger",
        "import",
        "aiter-model-shapes",
        str(source),
        "--into",
        str(tmp_path / "l"),
        "--m-values",
        values,
    ]
    assert cli.run(command) == 64
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Invalid value for '--m-values'" in error
