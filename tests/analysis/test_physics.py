"""The judge's lower bounds beside those of the replay half: never above them, on any frozen shape."""

from __future__ import annotations

import pytest

from gate import store
from gate.analysis import physics
from gate.commands.replay_inputs import case_of
from gate.replay.op import load_op
from gate.resources import frozen_ledgers_dir

ROWS = (
    "rmsnorm",
    "layernorm",
    "softmax",
    "vec_add",
    "quant",
    "fused_add_rmsnorm",
    "layernorm_fused_add",
    "rmsnorm_bwd",
)


@pytest.mark.parametrize("op_type", sorted(physics.MODELS))
def test_no_bound_is_above_what_the_op_itself_says(op_type: str) -> None:
    op = load_op(op_type)
    for shape in store.read_ledger(frozen_ledgers_dir() / op_type / store.LEDGER_FILE).shapes:
        work, case = physics.work(shape), case_of(shape)
        assert work is None or op.refusal(case) is not None or work.bytes <= op.bytes_moved(case) * 1.000001


@pytest.mark.parametrize("op_type", ROWS)
def test_the_bounds_of_rows_are_close(op_type: str) -> None:
    for shape in store.read_ledger(frozen_ledgers_dir() / op_type / store.LEDGER_FILE).shapes:
        work = physics.work(shape)
        assert work is not None
        # What is left out is the gain, the scale a row: a row's worth, or four bytes a row.
        args, own = shape.args, load_op(op_type).bytes_moved(case_of(shape))
        slack = 16 * (int(args["N"]) + int(args.get("M", 1)))
        assert own - work.bytes <= slack


@pytest.mark.parametrize("op_type", sorted(physics.MODELS))
def test_the_bounds_leave_out_nothing_large(op_type: str) -> None:
    op = load_op(op_type)
    found = []
    for shape in store.read_ledger(frozen_ledgers_dir() / op_type / store.LEDGER_FILE).shapes:
        work, case = physics.work(shape), case_of(shape)
        if work is not None and op.refusal(case) is None:
            found.append(work.bytes / op.bytes_moved(case))
            assert work.flops == (op.flops(case) if op_type in ("gemm", "moe_gemm") else 0)
    # Where rows are few or experts many, what is left out (gains, scales, weights nobody chose) is much.
    assert max(found) > 0.95
    if op_type in ("gemm", "softmax", "topk_gating_softmax", "vec_add"):
        assert min(found) == max(found) == 1.0
