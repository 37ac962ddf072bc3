"""What is said of an interpreter that cannot be started: which one, why, and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gate.model.problem import Problem, UnusableInput
from gate.replay.arms import ArmSpec

FIX = "make its environment again, or name another interpreter"
# Linux reads no more of a script's first line.
FIRST_LINE_BYTES = 256


@contextmanager
def arms_start(arms: Mapping[str, ArmSpec]) -> Iterator[None]:
    """Raises UnusableInput where the interpreter of one of the arms, by side, cannot be started."""
    try:
        yield
    except OSError as error:
        sides = [side for side, spec in arms.items() if spec.python == error.filename]
        if not sides:
            raise
        raise UnusableInput(_problem(error, f"the interpreter of {sides[0]}")) from None


def unstarted(error: OSError) -> Problem | None:
    """The problem where `error`, ENOENT or ENOEXEC, is about a file that is there, so about starting it; else None."""
    there = isinstance(error.filename, str) and Path(error.filename).is_file()
    return _problem(error, "the program") if there else None


def _problem(error: OSError, program: str) -> Problem:
    path = Path(error.filename)
    return Problem(what=f"{program} cannot be started: {_why(error, path)}", file=str(path), fix=FIX)


def _why(error: OSError, path: Path) -> str:
    """The system's word; of a script, whose own interpreter it is about, with that one's name."""
    try:
        with path.open("rb") as file:
            mark, _, named = file.read(FIRST_LINE_BYTES).partition(b"\n")[0].partition(b"#!")
    except OSError:
        return f"{error.strerror}"
    if not mark and named:
        return f"its first line names {named.decode('utf-8', 'replace').strip()}: {error.strerror}"
    return "what loads it is not there" if error.errno == errno.ENOENT else f"{error.strerror}"
