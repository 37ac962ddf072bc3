"""A process killed in the middle of an upsert leaves the ledger as it was."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gate import cli

ROOT = Path(__file__).resolve().parents[2]
# Runs the real command, and kills its own process when the n-th row is being encoded.
KILLED = """
import os, signal, sys
from gate import cli
from gate.store import writing

left = int(sys.argv[1])
encode = writing.encode

def fatal(record):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return encode(record)

writing.encode = fatal
cli.run(sys.argv[2:])
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("rows_written", [0, 1, 40])
def test_the_old_ledger_stays(tmp_path, rows_written):
    ledger = tmp_path / "ledger.jsonl"
    assert cli.run(["ledger", "import", "synthetic", "--op", "gemm", "--into", str(ledger)]) == 0
    before = ledger.read_bytes()
    arguments = ["ledger", "import", "model-config", "--model", "Llama3 8B", "--into", str(ledger)]
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(rows_written), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL
    assert ledger.read_bytes() == before
    assert cli.run(arguments) == 0
    assert ledger.read_bytes() != before


def test_a_full_disk_or_a_wrong_target_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("not a folder")
    into = str(tmp_path / "file" / "ledger.jsonl")
    assert cli.run(["ledger", "import", "synthetic", "--op", "gemm", "--into", into]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gate: ")
    assert error.count("\n") == 1
