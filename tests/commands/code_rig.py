"""Frozen ledgers of three small ops for runs that compare machine code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gate import store
from gate.cli import run
from gate.resources import frozen_ledgers_dir
from tests.factory import make_shape

SHAPES = {
    "rmsnorm": [{"M": 1, "N": 2048}, {"M": 32, "N": 2048}, {"M": 1, "N": 4096}],
    "softmax": [{"M": 1, "N": 28672}],
    "vec_add": [{"N": 4096}, {"N": 8192}],
}


def write_ledgers(root: Path) -> None:
    """Ledgers and matrices of the three small ops, with the matrices that the project freezes."""
    for op, args in SHAPES.items():
        # Rows of f32: the cheapest ones to compile that spill when a quarter of the threads must hold them.
        dtype = "f32" if op == "softmax" else "bf16"
        rows = [make_shape(op_type=op, dtype=dtype, args=one) for one in args]
        store.write_jsonl(root / op / store.LEDGER_FILE, rows)
        shutil.copy(frozen_ledgers_dir() / op / store.MATRIX_FILE, root / op / store.MATRIX_FILE)
    assert run(["ledger", "freeze", str(root)]) == 0


def record_ledgers(root: Path) -> Path:
    """Those ledgers, whose baseline is the installed flydsl itself."""
    write_ledgers(root)
    assert run(["codegen", "record", "--as-baseline", str(root), "--ledgers", str(root)]) == 0
    assert run(["ledger", "freeze", str(root)]) == 0
    return root


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of standard error since the last look."""
    return capsys.readouterr().err.splitlines()
