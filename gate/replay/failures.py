"""What becomes of an exception in a worker: the status of its row, one line, and whether the process is lost."""

from __future__ import annotations

from typing import Any

from gate.replay.device import CaptureFailed, OutOfMemory
from gate.replay.integrity import Ended
from gate.replay.op import UnknownOp
from gate.replay.provider import NoKernel

Reply = dict[str, Any]
# A context that has seen one of these is lost for the process: every later call fails as well.
FATAL_WORDS = ("illegal memory access", "unspecified launch failure", "device-side assert", "misaligned address")
# Contexts, graphs, modules and the handles of BLAS libraries say in words only that memory was short.
MEMORY_WORDS = ("out of memory", "STATUS_ALLOC_FAILED")


def one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:3])}"[:600] if lines else type(error).__name__


def out_of_memory(error: BaseException) -> bool:
    """Whether memory was short; a capture has that as its cause."""
    each = error.__cause__ if isinstance(error, CaptureFailed) and error.__cause__ is not None else error
    return isinstance(each, OutOfMemory | MemoryError) or any(word in str(each) for word in MEMORY_WORDS)


def failure(error: BaseException) -> Reply:
    """The reply that an exception becomes: its status, one line, and whether this process is lost."""
    if isinstance(error, Ended):
        return {"status": error.finding.status, "reason": error.finding.text, "code": error.finding.code}
    if isinstance(error, NoKernel | UnknownOp):
        return {"status": "unsupported", "reason": str(error)}
    fatal = getattr(error, "fatal", False) or any(word in str(error) for word in FATAL_WORDS)
    if not fatal and out_of_memory(error):
        return {"status": "oom", "reason": one_line(error)}
    told = {"status": "failed", "reason": one_line(error), "fatal": bool(fatal)}
    if isinstance(error, CaptureFailed):
        told |= {"reason": f"graph capture failed: {error}", "capture_error": str(error)}
    return told
