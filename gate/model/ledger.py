"""What a ledger is: the shapes in order, and what was refused while reading them."""

from __future__ import annotations

from typing import Literal

import msgspec

from gate.model.problem import Problem
from gate.model.shape import Shape


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The shapes of one or several ops; `problems` names each row that could not be used, with file and line."""

    shapes: tuple[Shape, ...]
    problems: tuple[Problem, ...] = ()


class LockedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One frozen file: the SHA-256 of its bytes and, for JSONL, how many rows it holds."""

    sha256: str
    rows: int | None = None


class LedgerLock(msgspec.Struct, frozen=True, kw_only=True):
    """ledger.lock.json: what one op's frozen folder must hold, and from which sources and importers it came.

    `files` maps each path inside the folder to its hash; `sources` each fact file to its SHA-256, `importers`
    each source kind that has rows to its importer's version.
    """

    schema: Literal["gate.ledger_lock/1"] = "gate.ledger_lock/1"
    op_type: str
    files: dict[str, LockedFile]
    importers: dict[str, int] = {}
    sources: dict[str, str] = {}
