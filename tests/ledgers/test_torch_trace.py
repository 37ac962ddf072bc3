"""torch.profiler traces: one that torch itself wrote, and made ones for what a CPU cannot show."""

import gzip
import json
from pathlib import Path

import pytest

from gate import cli
from gate.ledgers.torch_ops import OPERATORS
from gate.ledgers.torch_trace import read

# Written by torch 2.13 on a CPU: two layers of a tiny model, one step of 128 tokens and three of 16.
REAL = Path(__file__).parent / "data" / "torch_trace.json.gz"
BF16 = "c10::BFloat16"


def operator(name, dims, *, types=None, ts=10.0, dur=5.0, tid=1, external=None, values=()):
    arguments = {"Input Dims": dims, "Input type": types or [BF16] * len(dims), "Concrete Inputs": list(values)}
    if external is not None:
        arguments["External id"] = external
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": arguments}


def kernel(external, dur):
    return {"ph": "X", "cat": "kernel", "name": "k", "ts": 99, "dur": dur, "args": {"External id": external}}


def step(name, ts, dur):
    return {"ph": "X", "cat": "user_annotation", "name": name, "ts": ts, "dur": dur}


def traced(*events):
    return read({"traceEvents": list(events)}, file="t", model="m")


def shapes(found):
    return [(draft.op_type, draft.dtype, dict(draft.args)) for draft in found.drafts]


def test_the_real_trace_counts_each_launch_once():
    document = json.loads(gzip.decompress(REAL.read_bytes()))
    found = read(document, file="t", model="tiny")
    assert found.problems == ()
    counts = {}
    for draft in found.drafts:
        key = (draft.op_type, draft.stage)
        counts[key] = counts.get(key, 0) + draft.occurrences
    layers = {"prefill": 2 * 1, "decode": 2 * 3}
    expected = {"rmsnorm": 1, "layernorm": 1, "softmax": 1, "flash_attn": 1, "gemm": 5, "vec_add": 2}
    assert counts == {(op, stage): n * times for op, n in expected.items() for stage, times in layers.items()}


def test_the_real_trace_has_the_shapes_of_the_model():
    found = read(json.loads(gzip.decompress(REAL.read_bytes())), file="t", model="tiny")
    assert ("gemm", "bf16", {"M": 16, "N": 768, "K": 256}) in shapes(found)
    assert ("rmsnorm", "bf16", {"M": 128, "N": 256, "eps": 1e-5}) in shapes(found)
    assert ("vec_add", "bf16", {"N": 16 * 256}) in shapes(found)
    (attention,) = [args for op, _, args in shapes(found) if op == "flash_attn" and args["seq_q"] == 16]
    assert (attention["heads"], attention["dim_qk"], attention["causal"]) == (4, 64, True)


def test_the_command_takes_the_packed_file(tmp_path):
    out = tmp_path / "out"
    assert cli.run(["ledger", "import", "sglang", str(REAL), "--model", "tiny", "--ledgers", str(out)]) == 0
    rows = [json.loads(line) for line in (out / "rmsnorm" / "shape_ledger.jsonl").open()]
    weights = {row["args"]["M"]: row["weight"] for row in rows}
    assert weights[16]["occurrences"] == 6
    assert weights[16]["traffic_weight"] == 0.75
    assert weights[16]["baseline_time_weight"] is None


def test_a_truncated_packed_file_is_one_line(tmp_path, capsys):
    cut = tmp_path / "cut.gz"
    cut.write_bytes(REAL.read_bytes()[:-100])
    assert cli.run(["ledger", "import", "sglang", str(cut), "--ledgers", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(f"gate: {cut}: not a whole gzip file")
    assert not (tmp_path / "out").exists()


def test_kernel_times_become_the_weight_by_time(tmp_path):
    events = [
        operator("aten::mm", [[4, 8], [8, 16]], external=1),
        operator("aten::mm", [[4, 8], [8, 32]], external=2, ts=20),
        kernel(1, 30.0),
        kernel(1, 10.0),
        kernel(2, 120.0),
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    into = tmp_path / "l.jsonl"
    assert cli.run(["ledger", "import", "sglang", str(path), "--into", str(into)]) == 0
    weights = {row["args"]["N"]: row["weight"] for row in map(json.loads, into.open())}
    assert weights[16] == {"occurrences": 1, "traffic_weight": 0.5, "baseline_time_weight": 0.25}
    assert weights[32]["baseline_time_weight"] == 0.75


def test_operators_belong_to_the_step_they_start_in():
    events = [step("step[DECODE bs=4]", 0, 100), step("step[EXTEND bs=1 toks=9]", 200, 100), step("other", 0, 1000)]
    for ts in (10.0, 210.0, 400.0):
        events.append(operator("aten::mm", [[4, 8], [8, 16]], ts=ts))
    assert [draft.stage for draft in traced(*events).drafts] == ["decode", "prefill", "mixed"]


def test_of_nested_operators_of_one_meaning_the_inner_one_counts():
    outer = operator("aten::rms_norm", [[4, 64]], ts=10, dur=50)
    inner = operator("aten::_fused_rms_norm", [[4, 64]], ts=20, dur=10)
    later = operator("aten::rms_norm", [[4, 64]], ts=100, dur=50)
    elsewhere = operator("aten::rms_norm", [[4, 64]], ts=15, dur=20, tid=2)
    (draft,) = traced(outer, inner, later, elsewhere).drafts
    assert draft.occurrences == 3


def test_equal_launches_are_one_shape():
    calls = [operator("aten::mm", [[4, 8], [8, 16]], ts=ts) for ts in (10, 20, 30)]
    (draft,) = traced(*calls).drafts
    assert draft.occurrences == 3


@pytest.mark.parametrize(
    ("name", "dims", "op", "args"),
    [
        ("aten::addmm", [[16], [4, 8], [8, 16]], "gemm", {"M": 4, "N": 16, "K": 8}),
        ("aten::bmm", [[2, 4, 8], [2, 8, 16]], "batched_gemm", {"B": 2, "M": 4, "N": 16, "K": 8}),
        ("aten::_softmax", [[2, 3, 64], [], []], "softmax", {"M": 6, "N": 64}),
        ("aten::add", [[3, 5], [3, 5], []], "vec_add", {"N": 15}),
        ("sgl_kernel::rmsnorm", [[4, 64], [4, 64], [64]], "rmsnorm", {"M": 4, "N": 64, "eps": 1e-5}),
        (
            "sgl_kernel::topk_softmax",
            [[4, 8], [4, 8], [4, 128]],
            "topk_gating_softmax",
            {"num_tokens": 4, "num_experts": 128, "topk": 8},
        ),
        ("aiter::moe_sum", [[4, 8, 64], [4, 64]], "moe_reduce", {"num_tokens": 4, "topk": 8, "model_dim": 64}),
    ],
)
def test_operators_and_their_shapes(name, dims, op, args):
    assert shapes(traced(operator(name, dims))) == [(op, "bf16", args)]


def test_what_is_no_ledger_op_is_counted():
    found = traced(
        operator("aten::mul", [[4], [4]]),
        operator("aten::mul", [[4], [4]]),
        operator("aten::add", [[4, 4], [4]]),
        operator("aten::mm", [[4, 8], [8, 16]], types=["long int", "long int"]),
        operator("aten::mm", [[0, 8], [8, 16]]),
        operator("aten::view", [[4]]),
    )
    assert found.drafts == ()
    assert found.problems == ()
    assert found.unmapped == {
        "aten::mul": 2,
        "aten::add: not element by element": 1,
        "aten::mm: input 0 has type 'long int'": 1,
        "aten::mm: input 0 is empty": 1,
    }


def test_a_trace_without_shapes_says_how_to_record_them():
    bare = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "args": {}}
    found = traced(bare, bare)
    assert found.drafts == ()
    assert str(found.problems[0]).startswith("t: 2 calls of aten::mm: no recorded shapes; profile with record_shapes")


@pytest.mark.parametrize("document", [None, 1, "x", {}, {"traceEvents": 3}, {"traceEvents": {}}])
def test_no_trace_is_one_problem(document):
    assert len(read(document, file="t", model="m").problems) == 1


@pytest.mark.parametrize("name", sorted(OPERATORS))
@pytest.mark.parametrize("dims", [[], [[]], [[1]], [["a", 1]], [[-1, 2], [2, 2]], [None, None], [[2**70, 2]] * 4, "x"])
def test_odd_dimensions_never_raise(name, dims):
    event = operator(name, [])
    event["args"]["Input Dims"] = dims
    found = traced(event)
    assert len(found.drafts) + len(found.problems) + len(found.unmapped) == 1
