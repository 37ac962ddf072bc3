"""Reading says which line is wrong and why; writing leaves the old file or the whole new one."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.model.problem import UnusableInput
from gate.model.shape import compute_shape_id, expected_id
from gate.schemas.check import check
from tests.factory import make_outcome, make_shape

SHAPES = [make_shape(args={"M": m, "N": 8192}) for m in (1, 32, 256)]


def test_a_ledger_reads_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "shape_ledger.jsonl"
    store.write_jsonl(path, SHAPES)
    ledger = store.read_ledger(path)
    assert ledger.shapes == tuple(SHAPES)
    assert ledger.problems == ()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda line: line[: len(line) // 2], "not valid JSON"),
        (lambda line: line.replace(b'"model_config"', b'"modelconfig"', 1), "Invalid enum value 'modelconfig'"),
        (lambda line: line.replace(b'"M":32', b'"M":33'), "is not sha1:"),
        (
            lambda line: line.replace(b'"M":32', b'"M":NaN'),
            ":2: NaN is not a JSON number; write null where there is none",
        ),
        (lambda line: line.replace(b'"dtype"', b'"dtypo"'), "missing required field `dtype`"),
        (lambda line: b'{"layout":{"a":' + b"[" * 100_000, "nested too deeply"),
        (lambda line: b"[]", "Expected `object`"),
    ],
)
def test_one_bad_line_is_named_and_the_others_are_kept(tmp_path: Path, fault, told) -> None:  # type: ignore[no-untyped-def]
    rows = [store.encode(shape) for shape in SHAPES]
    rows[1] = fault(rows[1])
    path = tmp_path / "shape_ledger.jsonl"
    path.write_bytes(b"\n".join(rows))
    ledger = store.read_ledger(path)
    assert [shape.args["M"] for shape in ledger.shapes] == [1, 256]
    (problem,) = ledger.problems
    assert problem.line == 2
    assert str(problem).startswith(f"{path}:2: ")
    assert told in str(problem)


def test_a_repeated_shape_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "shape_ledger.jsonl"
    store.write_jsonl(path, [*SHAPES, SHAPES[0]])
    (problem,) = store.read_ledger(path).problems
    assert (problem.line, problem.shape_id) == (4, SHAPES[0].shape_id)
    assert "already on line 1" in problem.what


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"dtype": "float33"}, "'float33' is not a dtype"),
        ({"args": {"M": -4, "N": 8}}, "M is '-4', not a positive whole number"),
        ({"args": {"M": 2**50, "N": 8}}, "not a positive whole number up to 2^40"),
    ],
)
def test_a_row_that_no_kernel_can_have_is_refused(tmp_path: Path, fields: dict[str, Any], told: str) -> None:
    path = tmp_path / "shape_ledger.jsonl"
    bad = msgspec.structs.replace(SHAPES[1], **fields)
    store.write_jsonl(path, [SHAPES[0], msgspec.structs.replace(bad, shape_id=expected_id(bad))])
    ledger = store.read_ledger(path)
    assert ledger.shapes == (SHAPES[0],)
    (problem,) = ledger.problems
    assert (problem.line, problem.file) == (2, str(path))
    assert told in problem.what


def test_a_refused_result_still_names_its_row(tmp_path: Path) -> None:
    path = tmp_path / "benchmark_results.jsonl"
    row = store.encode(make_outcome(SHAPES[0])).replace(b'"median_us":10.0', b'"median_us":NaN')
    path.write_bytes(row)
    (problem,) = store.read_results(path).problems
    assert (problem.shape_id, problem.provider) == (SHAPES[0].shape_id, "flydsl")


@pytest.mark.parametrize("fault", [b"NaN", b"-Infinity", b"tru", b"'x'", b'"\x01"', b""])
def test_a_line_that_is_no_json_is_refused_in_the_words_of_validate(tmp_path: Path, fault: bytes) -> None:
    row = store.encode(make_outcome(SHAPES[0]))
    data = row + b"\n" + row.replace(b'"median_us":10.0', b'"median_us":' + fault)
    path = tmp_path / "benchmark_results.jsonl"
    path.write_bytes(data)
    (problem,) = store.read_results(path).problems
    (same,) = check("benchmark_results", file=str(path), data=data).problems
    assert (problem.what, problem.file, problem.line) == (same.what, same.file, same.line) and same.line == 2
    assert problem.fix or "write null" in problem.what


def test_the_csv_is_a_flat_projection(tmp_path: Path) -> None:
    path = tmp_path / "benchmark_results.jsonl"
    outcome = make_outcome(SHAPES[0], args={"M": 1, "N": 8192}, blocks_us=((10.1, 10.0), (10.2, 10.1)))
    store.write_results(path, [outcome])
    with path.with_suffix(".csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["median_us"] == "10.0"
    assert json.loads(row["blocks_us"]) == [[10.1, 10.0], [10.2, 10.1]]
    assert row["correct"] == "true"
    assert row["eager_median_us"] == ""
    assert tuple(row) == outcome.__struct_fields__


def test_identity_ignores_key_order_and_integral_floats() -> None:
    def identity(args: dict[str, object]) -> str:
        return compute_shape_id(op_type="gemm", model="m", stage="decode", dtype="bf16", layout={}, args=args)

    assert identity({"M": 1, "N": 2.0}) == identity({"N": 2, "M": 1.0})
    assert identity({"M": 1, "N": 2}) != identity({"M": 2, "N": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        identity({"M": float("nan")})


def test_an_unreadable_or_unwritable_path_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="cannot read"):
        store.read_ledger(tmp_path / "absent.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableInput, match="cannot write"):
        store.write_text(tmp_path / "file" / "below", "text")


def test_a_yaml_fault_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "baseline_matrix.yaml"
    path.write_text("kernel: x\nop_type: [\n")
    with pytest.raises(UnusableInput) as told:
        store.read_matrix(path)
    assert f"{path}:3:" in str(told.value)


def test_two_processes_cannot_write_one_folder(tmp_path: Path) -> None:
    with store.output_lock(tmp_path), pytest.raises(UnusableInput, match="another gate writes here"):
        code = "import sys; from pathlib import Path; from gate.store import output_lock\n"
        code += "with output_lock(Path(sys.argv[1])): pass"
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True, text=True)
        assert done.returncode != 0
        raise UnusableInput(*_problems(done.stderr))


def _problems(stderr: str):  # type: ignore[no-untyped-def]
    from gate.model.problem import Problem

    return [Problem(what=stderr.splitlines()[-1], file="")]


WRITER = """
import sys
from pathlib import Path
from typing import Any
from gate import store
path = Path(sys.argv[1])
print("ready", flush=True)
n = 0
while True:
    n += 1
    store.write_jsonl(path, [{"run": n, "row": row, "fill": "x" * 500} for row in range(400)])
"""


def test_kill_while_writing_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    store.write_jsonl(path, [{"run": 0, "row": row} for row in range(400)])
    for delay_ms in (1, 7, 19, 31, 53):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(delay_ms / 1000)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        rows = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
        assert [row["row"] for row in rows] == list(range(400))
        assert len({row["run"] for row in rows}) == 1
