"""Reads what a worker said: an answer or none, and, of one that has ended, how and with which words."""

from __future__ import annotations

import json
import signal
from typing import Any

MOST_TOLD = 300
# The words by which runtimes report an access fault before they abort the process.
FAULT_WORDS = ("Memory access fault", "illegal memory access", "GPU core dump", "HSA_STATUS_ERROR")


def reply_in(line: bytes) -> dict[str, Any] | None:
    """A worker's reply; None for a line that is none, be it the question itself, sent back."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "status" in found else None


def telling_line(text: str) -> str:
    """The line that reports an access fault, else the last one; empty for no text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fault = next((line for line in lines if any(word in line for word in FAULT_WORDS)), "")
    return (fault or (lines[-1] if lines else ""))[:MOST_TOLD]


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exited with code {code}"
    names = {
        signal.SIGSEGV: "crashed with a segmentation fault",
        signal.SIGABRT: "was aborted by its runtime",
        signal.SIGBUS: "crashed with a bus error",
        signal.SIGFPE: "crashed with an arithmetic error",
        signal.SIGILL: "crashed with an illegal instruction",
        signal.SIGKILL: "was killed from outside (signal 9; out of host memory?)",
    }
    try:
        return names.get(signal.Signals(-code), f"ended on signal {signal.Signals(-code).name}")
    except ValueError:
        return f"ended on signal {-code}"
