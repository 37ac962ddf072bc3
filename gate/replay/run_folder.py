"""What an output folder may hold: one run of one kind, and nobody's where nothing was measured or compiled in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gate.model.problem import Problem, UnusableInput, WrongUsage
from gate.replay.journal_lines import JOURNAL, whole_lines

# What a run keeps of itself beside its rows: its kind, and what it was asked; what it says of what it measured; and
# the folder of a timed run's journal.
STATE_FILE, PART_FILE, REPLAY_FOLDER = "run.json", "part.json", "replay"
SESSION, TIMED, CODE = "a session of measurements", "a timed run", "a run of machine code"
ROWS = "results of another run"
OTHER_OUT = "name another --out"


def claim(
    folder: Path, kind: str, *, asked: Mapping[str, Any] | None = None, resume: bool = False, anew: bool = False
) -> bool:
    """Whether `folder` holds a run of this kind that the caller goes on with, or replaces (`anew`).

    False where nothing was measured or compiled in it: then it is the caller's. `asked` is what the run is asked; one
    that goes on must have been asked the same. Raises WrongUsage where it holds another kind of run, UnusableInput
    where it holds one that is neither gone on with nor replaced, or that was asked something else.
    """
    found = held(folder)
    if found is None:
        return False
    if found != kind:
        what = f"holds {found}, whose rows and verdict these would replace"
        raise WrongUsage(Problem(what=what, file=str(folder), fix=OTHER_OUT))
    if resume and asked is not None:
        before = asked_before(folder, kind)
        # Of a timed run the journal knows it as well, and is held against it when it is opened.
        unlike = difference(before, asked) if before is not None or kind != TIMED else ""
        if unlike:
            raise UnusableInput(
                Problem(what=f"holds another run: {unlike}", file=str(folder), fix="give another --out")
            )
    elif not resume and not anew:
        fix = "give --resume to go on with it, or another --out"
        raise UnusableInput(Problem(what="already holds a run", file=str(folder), fix=fix))
    return True


def held(folder: Path) -> str | None:
    """The kind of run in `folder`; None where nothing was measured or compiled in it."""
    if measured(folder):
        return SESSION
    if measured(folder / REPLAY_FOLDER) or (folder / PART_FILE).is_file():
        return TIMED
    records = any(folder.glob("results/*/codegen_records.jsonl"))
    rows = any(folder.glob("results/*/benchmark_results.jsonl"))
    begun = state(folder).get("kind") == CODE and (rows or any(folder.glob("compiled/**/*.json")))
    if records or begun:
        return CODE
    return ROWS if rows else None


def spare(folder: Path) -> None:
    """Raises WrongUsage where `folder` holds a run, also one that measured nothing: its verdict is its own."""
    found = held(folder)
    begun = (STATE_FILE, JOURNAL, f"{REPLAY_FOLDER}/{JOURNAL}")
    if found is None and any((folder / name).exists() for name in begun):
        kind = state(folder).get("kind")
        found = kind if kind in (TIMED, CODE) else "a run"
    if found is not None:
        what = f"holds {found}, whose verdict this would replace"
        raise WrongUsage(Problem(what=what, file=str(folder), fix=OTHER_OUT))


def measured(folder: Path) -> bool:
    """Whether the journal in `folder` holds more than its header; where lines follow a damaged one, it does."""
    path = folder / JOURNAL
    data = path.read_bytes() if path.is_file() else b""
    lines = whole_lines(path)
    header = next(lines, b"")
    return next(lines, None) is not None or bool(data[len(header) :].partition(b"\n")[2])


def state(folder: Path) -> dict[str, Any]:
    """What the run says of itself; nothing where there is no such file, or it cannot be read."""
    try:
        told = json.loads((folder / STATE_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def asked_before(folder: Path, kind: str) -> Any:
    """What the run in `folder` was asked; None where it does not say so."""
    if kind == SESSION:
        header = next(whole_lines(folder / JOURNAL), b"{}")
        return json.loads(header).get("fingerprint")
    return state(folder).get("asked")


def difference(before: Any, now: Mapping[str, Any]) -> str:
    """What was asked otherwise, in words; empty where nothing was."""
    if not isinstance(before, dict):
        return "it does not say what it was asked"
    if now.keys() != before.keys():
        return "it is of another kind, or of another version"
    unlike = {key: (before[key], now[key]) for key in sorted(now) if before[key] != now[key]}
    texts = [
        f"{key} was {old or 'not given'} there and is {new or 'not given'} here"
        for key, (old, new) in unlike.items()
        if isinstance(old, str) and isinstance(new, str)
    ]
    others = [f"{key}{_parts(*pair)}" for key, pair in unlike.items() if not all(isinstance(one, str) for one in pair)]
    return "; ".join([*texts, *([f"{', '.join(others)} differ"] if others else [])])


def _parts(old: Any, new: Any) -> str:
    """Which parts of two groups differ, in brackets; empty where they are no groups."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return ""
    return f" ({', '.join(sorted(key for key in {*old, *new} if old.get(key) != new.get(key)))})"


def results_of(folder: Path, name: str) -> str:
    """What to name instead, where `folder` is a run's and its `<op>/<name>` are wanted; empty where it is none."""
    place = next((folder / part for part in ("results", "head") if any((folder / part).glob(f"*/{name}"))), None)
    return f"this is a run's folder: name {place}" if place is not None else ""
