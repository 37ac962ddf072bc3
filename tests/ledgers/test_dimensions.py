"""A shape that lacks a dimension which its op needs: refused where it enters, and never a row that nobody minds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate import store
from gate.cli import run
from gate.commands.ledger_files import write_frozen
from gate.commands.ledger_needs import lacking, needs
from gate.commands.ledger_put import put
from gate.ledgers.draft import Draft
from gate.ledgers.known import OPS
from gate.model.problem import UnusableInput
from gate.model.shape import SIZES, Shape, Source
from gate.replay.op import Case, MissingDimension, load_op
from gate.resources import frozen_ledgers_dir
from tests.commands.code_rig import told
from tests.factory import decision_in, make_shape
from tests.needs import needs_flydsl
from tests.replay import rig

VEC_ADD = {"op_type": "vec_add", "dtype": "f32", "args": {"M": 8}}
WORDS = "vec_add needs N, which its args do not have"


def ledger_of(folder: Path, *args: dict[str, Any]) -> Path:
    """A ledger of vec_add with these args."""
    rows = [make_shape(op_type="vec_add", dtype="f32", args=one) for one in args]
    store.write_jsonl(folder / store.LEDGER_FILE, rows)
    store.write_bytes(folder / store.MATRIX_FILE, (frozen_ledgers_dir() / "vec_add" / store.MATRIX_FILE).read_bytes())
    return folder / store.LEDGER_FILE


@pytest.mark.parametrize(
    ("op", "names"),
    [
        ("vec_add", ("N",)),
        ("rmsnorm", ("M", "N")),
        ("moe_sorting", ("model_dim", "num_experts", "num_tokens", "topk", "unit_size")),
        # Only its inputs ask for block_size, and only its flops for seq_q.
        ("pa_decode", ("batch", "block_size", "dim_qk", "dim_v", "heads", "kv_heads", "seq_k", "seq_q")),
        ("mla_decode", ("batch", "dim_qk", "dim_v", "heads", "seq_k", "seq_q")),
        ("unified_attention", ()),
    ],
)
def test_an_op_says_what_it_needs(op: str, names: tuple[str, ...]) -> None:
    assert needs(op) == names


def test_every_op_that_is_measured_needs_something_and_no_frozen_row_lacks_it() -> None:
    measured = [path.stem for path in (Path(rig.ROOT) / "gate" / "replay" / "ops").glob("[a-z]*.py")]
    assert len(measured) > 25 and OPS.issuperset(measured)
    for op in measured:
        assert needs(op) and SIZES.issuperset(needs(op)), op
        rows = list(store.read_ledger(frozen_ledgers_dir() / op / store.LEDGER_FILE).shapes)
        assert rows and not [row for row in rows if lacking(op, row.args)], op
        with pytest.raises(MissingDimension, match=f"needs {needs(op)[0]}"):
            load_op(op).refusal(case_without(rows[0], needs(op)[0]))


def case_without(shape: Shape, name: str) -> Case:
    args = {key: value for key, value in shape.args.items() if key != name}
    return Case(shape_id=shape.shape_id, op_type=shape.op_type, dtype=shape.dtype, args=args, layout={})


def test_an_import_by_hand_refuses_the_entry_by_its_line_and_takes_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "given.json"
    given.write_text(json.dumps([VEC_ADD, {**VEC_ADD, "args": {"N": 64}}], indent=0))
    assert run(["ledger", "import", "manual", str(given), "--into", str(tmp_path / "ledger.jsonl")]) == 2
    assert f"{given}:2: shape 0: {WORDS}" in told(capsys)
    assert [shape.args for shape in store.read_ledger(tmp_path / "ledger.jsonl").shapes] == [{"N": 64}]
    assert run(["validate", str(given)]) == 2
    assert f"{given}:2: shape 0: {WORDS}" in told(capsys)


def test_no_importer_can_bring_such_a_row(tmp_path: Path) -> None:
    source = Source(kind="aiter_model_shapes", file="model_shapes.json")
    draft = Draft(op_type="gemm", model="m", stage="decode", dtype="bf16", args={"M": 1, "N": 64}, source=source)
    with pytest.raises(UnusableInput, match=r"model_shapes\.json: gemm needs K, which its args do not have"):
        put([draft], kinds=frozenset({"aiter_model_shapes"}), into=tmp_path / "ledger.jsonl", ledgers=None)
    assert not (tmp_path / "ledger.jsonl").exists()


def test_validate_freeze_and_check_name_line_and_dimension(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ledger_of(tmp_path / "vec_add", {"N": 64}, {"M": 8})
    line = f"{path}:2: {WORDS}"
    for argv in (["validate", str(path)], ["ledger", "freeze", str(path.parent)]):
        assert run(argv) == 2, argv
        assert sum(line in one for one in told(capsys)) == 1, argv
    assert not (path.parent / "ledger.lock.json").exists()
    # As a lock of an earlier version may be.
    write_frozen(path.parent, shapes=None, matrix=None)
    assert run(["ledger", "check", str(path.parent)]) == 2
    assert [line in one for one in told(capsys)] == [True]


@needs_flydsl
def test_a_run_of_machine_code_over_such_a_ledger_has_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ledger_of(tmp_path / "ledgers" / "vec_add", {"M": 8})
    write_frozen(path.parent, shapes=None, matrix=None)
    assert run(["run", "--ledgers", str(tmp_path / "ledgers"), "--out", str(tmp_path / "out")]) == 2
    assert any(f"{path}:1: {WORDS}" in one for one in told(capsys))
    assert "ledger_refused" in decision_in(tmp_path / "out")["reasons"]


def test_a_measured_row_without_a_dimension_is_failed_and_not_unsupported(tmp_path: Path) -> None:
    good, bad = make_shape(dtype="fp32", args={"M": 4, "N": 64}), make_shape(dtype="fp32", args={"M": 4})
    rig.write_inputs(tmp_path, ledger=[good, bad])
    code, stderr = rig.run(tmp_path)
    found = {(row.shape_id, row.provider): row for row in rig.rows(tmp_path)}
    assert code == 0, stderr
    for provider in ("flydsl", "triton"):
        assert found[good.shape_id, provider].benchmark_status == "ok"
        row = found[bad.shape_id, provider]
        assert row.benchmark_status == "failed"
        assert "needs N, which the shape's args do not have" in (row.skip_reason or "")
