"""Rows for `gate validate`, and what it says of them."""

import json

from gate import cli
from gate.ledgers.matrices import matrix_yaml
from gate.model.shape import Shape, Source, Weight, compute_shape_id
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


def reidentified(**changes):
    row = {**ledger_row(), **changes}
    identity = {key: row[key] for key in ("op_type", "model", "stage", "dtype", "layout", "args")}
    return {**changes, "shape_id": compute_shape_id(**identity)}


CODEGEN = {"compile_key": "k", "constexprs": {}}
# The text of a file of each kind, by what `recognise` calls it.
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
