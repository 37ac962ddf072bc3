"""AITER's real host code runs to its launches from every Triton binding, where AITER_CHECKOUT names a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Needs what AITER's compiled half defines, which is not imported here.
COMPILED_HALF = "has no attribute 'dtypes'"


@pytest.mark.skipif("AITER_CHECKOUT" not in os.environ, reason="set AITER_CHECKOUT to the root of a clone of AITER")
def test_every_binding_reaches_a_launch() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton", exc_type=ImportError)
    command = [sys.executable, "-m", "tests.bench.aiter_triton_hosts", os.environ["AITER_CHECKOUT"]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("aiter_triton", "gluon"))]
    assert len(lines) > 30, done.stderr
    assert [line for line in lines if "failed" in line and COMPILED_HALF not in line] == []
