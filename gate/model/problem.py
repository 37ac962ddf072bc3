"""How bad input is described: one line that says what, where and what to do, and the exit code it means."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

import msgspec

from gate.model.text import one_line


class Exit(IntEnum):
    """The gate's exit codes, as `contracts` fixes them."""

    PASS = 0
    BLOCK = 1
    NO_VERDICT = 2
    USAGE = 64


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with one input.

    `line` counts from 1 and is None where the whole file is meant. `shape_id` and `provider` are set when a
    refused row still tells whose row it was, so that the judgement can name it.
    """

    what: str
    file: str
    line: int | None = None
    fix: str = ""
    shape_id: str | None = None
    provider: str | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        text = f"{where}: {self.what}" if where else self.what
        # What a file holds may be quoted in it.
        return one_line(f"{text}; {self.fix}" if self.fix else text)


class GateError(Exception):
    """Stops a verb: carries every problem found and the exit code; the CLI prints one line per problem."""

    exit_code: ClassVar[Exit] = Exit.NO_VERDICT

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class UnusableInput(GateError):
    """An input file cannot be read, or is not what its contract says: no verdict."""


class WrongUsage(GateError):
    """The command line asks for something that cannot be done."""

    exit_code = Exit.USAGE
