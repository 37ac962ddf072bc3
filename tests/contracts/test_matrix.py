"""The table of ops by providers: no empty cell, in step with the matrices, and as the documentation prints it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gate.cli import run
from gate.commands import doctor_matrix
from gate.contracts import matrix
from gate.ledgers import matrices
from gate.model.matrix import PROVIDERS

ROOT = Path(__file__).resolve().parents[2]
OPS = doctor_matrix.ops()


@pytest.mark.parametrize("op", OPS)
def test_what_a_matrix_measures_is_wired_and_nothing_else_is(op: str) -> None:
    rows = matrices.matrix(op)["providers"]
    there = {provider for _, provider in matrix.wired([op], PROVIDERS)}
    assert there == {name for name, row in rows.items() if row["enabled"]}


def test_no_cell_is_empty() -> None:
    table = doctor_matrix.cells({})
    assert [row[0].op for row in table] == OPS and len(OPS) >= 30
    assert all([cell.provider for cell in row] == list(PROVIDERS) for row in table)
    assert all(cell.text == "wired" or (cell.absent and cell.text == "absent") for row in table for cell in row)


def test_evidence_stands_beside_what_is_wired() -> None:
    known = {("gemm", "flydsl"): {"correct": "2 of 2 correct on G", "gfx950": "4 of 5 shapes compile for gfx950"}}
    there = frozenset({("gemm", "flydsl")})
    rows = matrix.table(["gemm"], ["flydsl", "ck"], reasons={("gemm", "ck"): "none"}, known=known, there=there)
    assert matrix.markdown(rows).splitlines() == [
        "| op | flydsl | ck |",
        "|---|---|---|",
        "| gemm | wired · 4 of 5 shapes compile for gfx950 · 2 of 2 correct on G | absent (1) |",
        "",
        "Why a provider is absent:",
        "",
        "1. none",
    ]
    with pytest.raises(KeyError):
        matrix.table(["gemm"], ["triton"], reasons={}, known={}, there=there)


def test_a_kernel_counts_under_the_ops_name_only(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.py").write_text("@kernel(op='x')\ndef softmax(): ...\n\n\ngemm = made('gemm')\n")
    (tmp_path / "two.py").write_text("def softmax(): ...\n\n\nrmsnorm = 3\n")
    found = matrix.wired(["softmax", "gemm", "rmsnorm"], ["one", "two", "three"], tmp_path)
    assert found == {("softmax", "one"), ("gemm", "one")}


def test_the_documented_table_is_current() -> None:
    """What is wired and what is absent, and why; evidence is of the day it was gathered."""
    text = (ROOT / "docs" / "providers.md").read_text("utf-8")
    plain = re.sub(r"wired( ·[^|]*)? \|", "wired |", text)
    assert matrix.markdown(doctor_matrix.cells({})).strip() in plain


def test_from_another_folder_the_ledgers_are_those_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--matrix"]) == 0
    assert "rmsnorm" in capsys.readouterr().out
