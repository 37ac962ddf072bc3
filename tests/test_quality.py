"""The checks every change must pass: lint, format, types and the layers between the packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

CHECKS = {
    "ruff check": [BIN / "ruff", "check", "."],
    "ruff format": [BIN / "ruff", "format", "--check", "."],
    "mypy --strict": [BIN / "mypy"],
    "import layers": [BIN / "lint-imports"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_check(name: str) -> None:
    command = [str(part) for part in CHECKS[name]]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{name}:\n{done.stdout}{done.stderr}"
