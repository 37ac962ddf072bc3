"""`gate validate` tells every file by its content, and what in a folder it checks, skips and refuses."""

import json
import os

import pytest

from gate.ledgers.matrices import matrix_yaml
from gate.schemas.recognise import recognise
from tests.validating import RECOGNISED, ledger_row, lines, reidentified, result_row, run


@pytest.mark.parametrize("contract", sorted(RECOGNISED))
def test_a_file_is_told_by_its_content(contract):
    assert recognise(RECOGNISED[contract].encode()) == contract


@pytest.mark.parametrize("contract", ["shape_ledger", "benchmark_results", "decision", "torch_trace"])
def test_a_file_that_is_cut_off_is_still_told(contract):
    text = RECOGNISED[contract]
    assert recognise(text[: len(text) - 4].encode()) == contract


def test_valid_files_pass(tmp_path, capsys):
    (tmp_path / "a").write_text(lines(ledger_row(), ledger_row(**reidentified(args={"M": 2, "N": 4096}))))
    (tmp_path / "b").write_text(lines(result_row(), result_row(provider="triton")))
    (tmp_path / "c").write_text(matrix_yaml("gemm"))
    code, out, err = run(capsys, tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert (code, err) == (0, [])
    assert [line.split(": ", 1)[1] for line in out] == [
        "shape_ledger, 2 records, valid",
        "benchmark_results, 2 records, valid",
        "baseline_matrix, 1 record, valid",
    ]


def test_a_missing_file_and_an_unknown_one_are_told(tmp_path, capsys):
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00 neither this nor that")
    code, out, err = run(capsys, tmp_path / "absent", tmp_path / "x")
    assert code == 2
    assert "unreadable" in out[0] and "unknown" in out[1]
    assert len(err) == 2


def test_json_output(tmp_path, capsys):
    (tmp_path / "ledger").write_text(lines(ledger_row(), ledger_row(stage="x")))
    code, out, _ = run(capsys, "--json", tmp_path)
    found = json.loads("\n".join(out))
    assert code == 2
    assert found["valid"] is False
    assert found["files"][0]["contract"] == "shape_ledger"
    assert [problem["line"] for problem in found["files"][0]["problems"]] == [2]


def own_folder(root):
    for name, text in {
        "comment.md": "# words\n- a list\n",
        "step_summary.md": "key = value\n",
        "isa/gemm.s": "\t.text\n",
        "compiled/abc.json": '{"status": "ok"}',
        "pages/index.json": "{}",
        "pages/gemm.html": "<html>",
        "plots/noise.svg": "<svg/>",
        ".lock": "",
        "regressions.jsonl": "",
        "results/benchmark_results.jsonl": lines(result_row()),
        "results/benchmark_results.csv": "shape_id,provider,benchmark_status\na,b,ok\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_folder_of_the_gates_own_outputs_is_valid(tmp_path, capsys):
    code, out, err = run(capsys, own_folder(tmp_path))
    assert (code, err) == (0, [])
    assert sum(line.endswith(", valid") for line in out) == 3
    skipped = " ".join(line for line in out if "skipped" in line)
    for name in ("comment.md and 1 more", "gemm.s", "abc.json", "index.json", "gemm.html", "noise.svg", ".lock"):
        assert name in skipped


def test_an_unknown_file_of_a_folder_is_told_and_skipped(tmp_path, capsys):
    (own_folder(tmp_path) / "stray").write_text("neither this nor that\n")
    os.mkfifo(tmp_path / "pipe")
    code, out, _ = run(capsys, tmp_path)
    assert code == 0
    assert f"{tmp_path}/stray: skipped, none of the contracts, nor a source that an importer reads" in out
    assert f"{tmp_path}/pipe: skipped, not a regular file" in out
    assert run(capsys, tmp_path / "stray")[0] == 2
    _, out, _ = run(capsys, "--json", tmp_path)
    assert len(json.loads("\n".join(out))["skipped"]) == 10


@pytest.mark.parametrize("name", ["decision.json", "shape_ledger.jsonl", "baseline_matrix.yaml", "policy.toml"])
def test_a_file_that_is_called_a_contract_is_never_skipped(tmp_path, capsys, name):
    (own_folder(tmp_path) / name).write_text("garbage\n")
    code, _, err = run(capsys, tmp_path)
    assert (code, len(err)) == (2, 1)


def test_a_folder_in_which_nothing_can_be_checked_is_not_valid(tmp_path, capsys):
    (tmp_path / "comment.md").write_text("x")
    code, out, err = run(capsys, tmp_path)
    assert (code, len(out), len(err)) == (2, 1, 1)
