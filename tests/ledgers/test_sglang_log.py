"""SGLang's server log in the forms of 2024 and of today."""

import json

import pytest

from gate import cli
from gate.ledgers.ops.point import Point
from gate.ledgers.serving import bucket
from gate.ledgers.sglang_log import Reading, read

OLD_PREFILL = (
    "[2024-12-20 12:42:16 TP0] Prefill batch. #new-seq: 2, #new-token: 2046, #cached-token: 4, "
    "cache hit rate: 0.06%, token usage: 0.00, #running-req: 0, #queue-req: 0"
)
OLD_DECODE = (
    "[2024-12-20 12:45:35 TP0] Decode batch. #running-req: 16, #token: 16763, token usage: 0.01, "
    "gen throughput (token/s): 2.20, #queue-req: 0"
)
NEW_PREFILL = (
    "[2026-05-19 00:32:50 DP0 TP0] Prefill batch [3], #new-seq: 1, #new-token: 64, #cached-token: 4096, "
    "token usage: 0.10, #running-req: 7, #queue-req: 0, #pending-token: 0, cuda graph: False, "
    "input throughput (token/s): 0.16"
)
NEW_DECODE = (
    "(SGLangEngine pid=35555) [2025-10-31 03:45:20 TP0] Decode batch [51341], #running-req: 317, #token: 1094261, "
    "token usage: 0.67, cuda graph: True, gen throughput (token/s): 14806.57, #queue-req: 0,"
)
WINDOWED = (
    "[x DP0 TP0 EP0] Decode batch [30122], #running-req: 31, #full token: 6300, full token usage: 0.1, "
    "#swa token: 900, accept len: 4.75, cuda graph: True, #queue-req: 0"
)
REPLAY = "[x] Decode batch [first graph replay], #running-req: 32, cuda graph: True, #queue-req: 0"


def steps(*lines, **reading):
    numbered = [(number, line.encode()) for number, line in enumerate(lines, start=1)]
    return read(numbered, file="log", reading=Reading(**reading))


def test_the_form_of_2024():
    found = steps(OLD_PREFILL, OLD_DECODE)
    assert found.steps == {
        Point(tokens=2048, phase="prefill", batch=2): 1,
        Point(tokens=16, phase="decode", batch=16, context=2048): 40,
    }
    assert found.problems == ()


def test_the_form_of_today():
    found = steps(NEW_PREFILL, NEW_DECODE, WINDOWED, tp=8)
    assert found.steps == {
        Point(tokens=64, tp=8, phase="prefill", batch=1, context=4096): 1,
        Point(tokens=512, tp=8, phase="decode", batch=512, context=4096): 40,
        Point(tokens=32, tp=8, phase="decode", batch=32, context=256): 40,
    }


def test_a_decode_line_stands_for_as_many_steps_as_the_server_was_told():
    found = steps(OLD_DECODE, OLD_DECODE, decode_log_interval=10)
    assert list(found.steps.values()) == [20]
    assert found.decode_lines == 2


def test_the_first_graph_replay_is_not_counted_twice():
    assert steps(REPLAY).steps == {}
    assert steps(REPLAY).problems == ()


def test_other_lines_are_no_problem():
    found = steps("INFO: GET /health", "The server is fired up", "Prefill batches are fun", "")
    assert found.steps == {}
    assert found.problems == ()


@pytest.mark.parametrize("line", ["[x] Prefill batch. #new-seq: 1, #new-tok", "[x] Decode batch, #token: 5"])
def test_a_batch_line_without_its_count_is_a_problem_with_its_line(line):
    found = steps(OLD_PREFILL, line)
    assert found.prefill_lines == 1
    assert [problem.line for problem in found.problems] == [2]


def test_a_batch_of_nothing_is_counted_apart():
    found = steps(OLD_DECODE.replace("16,", "0,", 1))
    assert (found.steps, found.empty_lines) == ({}, 1)


@pytest.mark.parametrize(
    ("value", "sizes", "expected"),
    [(1, (), 1), (3, (), 4), (4, (), 4), (5, (), 8), (0, (), 0), (5, (4, 8), 8), (9, (8, 4), 8), (4, (4, 8), 4)],
)
def test_buckets(value, sizes, expected):
    assert bucket(value, sizes) == expected


def test_given_buckets_are_used():
    found = steps(NEW_DECODE, buckets=(160, 320, 640))
    assert [point.tokens for point in found.steps] == [320]


CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "rms_norm_eps": 1e-5,
    "vocab_size": 128256,
}


def imported(tmp_path, *more, log=(OLD_PREFILL, OLD_DECODE)):
    (tmp_path / "log").write_text("\n".join(log))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    out = tmp_path / "out"
    command = ["ledger", "import", "sglang", str(tmp_path / "log"), "--ledgers", str(out), *more]
    code = cli.run(command)
    rows = {path.parent.name: [json.loads(line) for line in path.open()] for path in out.rglob("*.jsonl")}
    return code, rows


def test_a_log_and_a_config_give_weighted_rows_of_every_op_that_follows_from_them(tmp_path):
    code, rows = imported(tmp_path, "--config", str(tmp_path / "config.json"))
    assert code == 0
    assert {"rmsnorm", "gemm", "flash_attn", "pa_decode", "fused_rope_cache", "quant", "vec_add"} <= rows.keys()
    assert {row["model"] for op in rows.values() for row in op} == {"LlamaForCausalLM"}
    for op, of_op in rows.items():
        assert all(row["source"]["kind"] == "sglang_trace" for row in of_op)
        assert sum(row["weight"]["traffic_weight"] for row in of_op) == pytest.approx(1, abs=1e-4), op
    weights = {row["stage"]: row["weight"]["occurrences"] for row in rows["rmsnorm"]}
    assert weights == {"prefill": 1, "decode": 40}


def test_a_shape_seen_in_prefill_and_in_decode_is_one_row(tmp_path):
    log = (OLD_DECODE, OLD_PREFILL.replace("2046", "16"))
    _, rows = imported(tmp_path, "--config", str(tmp_path / "config.json"), "--op", "rmsnorm", log=log)
    assert [(row["stage"], row["weight"]["occurrences"]) for row in rows["rmsnorm"]] == [("mixed", 41)]


def test_a_log_without_a_model_is_wrong_usage(tmp_path, capsys):
    code, rows = imported(tmp_path)
    assert (code, rows) == (64, {})
    assert "--config" in capsys.readouterr().err


def test_a_log_without_batches_is_unusable(tmp_path, capsys):
    code, rows = imported(tmp_path, "--model", "Llama3 8B", log=("INFO: nothing",))
    assert (code, rows) == (2, {})
    assert "no step" in capsys.readouterr().err


def test_a_cut_line_is_told_and_the_rest_imported(tmp_path, capsys):
    code, rows = imported(tmp_path, "--model", "Llama3 8B", "--op", "vec_add", log=(OLD_PREFILL, OLD_DECODE[:45]))
    assert code == 2
    assert len(rows["vec_add"]) == 1
    assert ":2: a Decode batch line without #running-req" in capsys.readouterr().err
