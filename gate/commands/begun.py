"""What a run keeps of itself from its first call: its kind, since which day it runs, and what it was asked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from gate import store
from gate.commands import judge_files
from gate.commands.codegen_sides import COMPILED_BASE, HEAD_OPTIONS
from gate.model.problem import UnusableInput
from gate.replay.journal_lines import JOURNAL
from gate.replay.run_folder import CODE, REPLAY_FOLDER, STATE_FILE, TIMED


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Of a timed run; an earlier version does not say what it was asked."""

    kind: str = TIMED
    day: date
    asked: dict[str, Any] = {}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Of a run of machine code."""

    kind: str = CODE
    asked: dict[str, Any]


def timed(out: Path, asked: dict[str, Any], *, goes_on: bool) -> date:
    """The day that waivers are held against: that of the first call, also where a later one goes on.

    `out` is claimed: unless a run `goes_on`, nothing was measured in it.
    """
    path = out / STATE_FILE
    if goes_on and path.exists():
        fix = "remove it, then --resume: waivers are then held against today"
        return store.read_record(path, State, what="the state of a run", fix=fix).day
    forget(out)
    day = datetime.now(UTC).date()
    store.write_json(path, State(day=day, asked=asked))
    return day


def code(out: Path, asked: dict[str, Any]) -> None:
    """Says what a run of machine code was asked; `out` is claimed."""
    forget(out)
    store.write_json(out / STATE_FILE, Asked(asked=asked))


def forget(out: Path) -> None:
    """Removes what a timed run left that measured nothing."""
    if (out / REPLAY_FOLDER / JOURNAL).is_file():
        store.remove_folder(out / REPLAY_FOLDER)


def asked_of(
    sources: Mapping[str, Any], ledgers: Path, *, ops: tuple[str, ...], shapes: tuple[str, ...]
) -> dict[str, Any]:
    """What decides the machine code and what it is held against, by option; kernels are known by their own content."""
    names = (*HEAD_OPTIONS, "base", *COMPILED_BASE, "arch")
    try:
        hashes = file_hashes(ledgers)
    except UnusableInput:
        hashes = {}  # The run says so itself, in its verdict.
    return {
        **selection(ops=ops, shapes=shapes),
        **{f"--{name.replace('_', '-')}": text(sources[name]) for name in names},
        "--torch": text(sources["installed_torch"]),
        "the ledgers": hashes,
    }


def selection(*, ops: Iterable[str], shapes: Iterable[str]) -> dict[str, str]:
    """The part of the ledgers that is asked for, in whatever order it was named."""
    return {"--op": ", ".join(sorted(set(ops))), "--shape": ", ".join(sorted(set(shapes)))}


def text(value: Any) -> str:
    """The value of an option; empty where it was not given."""
    if isinstance(value, tuple):
        return ", ".join(map(text, value))
    return str(value.resolve()) if isinstance(value, Path) else "" if value is None or value is False else str(value)


def file_hashes(root: Path) -> dict[str, str]:
    """The SHA-256 of every ledger and matrix under `root`, by `<op>/<file>`."""
    files = [path for name in (store.LEDGER_FILE, store.MATRIX_FILE) for path in judge_files.found(root, name)]
    return {f"{path.parent.name}/{path.name}": hashlib.sha256(store.read_bytes(path)).hexdigest() for path in files}
