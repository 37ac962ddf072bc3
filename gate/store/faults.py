"""What is said when a file cannot be read or written."""

from __future__ import annotations

from pathlib import Path

from gate.model.problem import Problem, UnusableInput

_IO_FIX = {"read": "check the path and its permissions", "write": "choose a folder that can be written"}


def io_fault(doing: str, path: Path, error: OSError) -> UnusableInput:
    """One line with the system's own word for it."""
    return UnusableInput(Problem(what=f"cannot {doing}: {error.strerror}", file=str(path), fix=_IO_FIX[doing]))
