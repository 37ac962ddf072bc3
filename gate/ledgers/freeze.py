"""Knows what frozen means: a folder whose every file has the hash that its lock says, and nothing beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from gate.model.ledger import LedgerLock, LockedFile
from gate.model.problem import Problem

LOCK_FILE = "ledger.lock.json"
# The version of what each importer makes of its source; it rises when equal sources give other rows.
IMPORTERS: dict[str, int] = {
    "aiter_model_shapes": 1,
    "atom_workload": 1,
    "diagnostic": 1,
    "manual": 1,
    "model_config": 1,
    "sglang_trace": 1,
    "synthetic": 1,
}


def sha256(data: bytes) -> str:
    """The hash a lock records, in hex."""
    return hashlib.sha256(data).hexdigest()


def lock(
    op: str, *, files: Mapping[str, LockedFile], kinds: Iterable[str], sources: Mapping[str, bytes] | None = None
) -> LedgerLock:
    """The lock of a frozen folder. `files` holds every file by its path inside the folder, `kinds` the source
    kinds of the rows, `sources` the fact files that the rows were derived from.
    """
    return LedgerLock(
        op_type=op,
        files={path: files[path] for path in sorted(files)},
        importers={kind: IMPORTERS[kind] for kind in sorted(set(kinds))},
        sources={name: sha256(data) for name, data in sorted((sources or {}).items())},
    )


def locked_file(path: str, lines: Iterable[bytes]) -> LockedFile:
    """What the lock records of a file, from its lines as they are; rows are counted in JSONL."""
    digest, rows = hashlib.sha256(), 0
    for line in lines:
        digest.update(line)
        rows += not line.isspace()
    return LockedFile(sha256=digest.hexdigest(), rows=rows if path.endswith(".jsonl") else None)


def differences(locked: LedgerLock, *, folder: str, files: Mapping[str, LockedFile]) -> list[Problem]:
    """What in the folder is not what the lock says: edited, missing or unlocked files, changed importers."""
    problems = []
    for path in sorted(locked.files.keys() | files.keys()):
        name = f"{folder}/{path}"
        if path not in files:
            problems.append(Problem(what="the lock names it, but it is not there", file=name, fix=_FIX))
        elif path not in locked.files:
            problems.append(Problem(what="it is not in the lock", file=name, fix=_FIX))
        elif files[path].sha256 != locked.files[path].sha256:
            problems.append(Problem(what="its bytes are not those of the lock", file=name, fix=_FIX))
    for kind, version in sorted(locked.importers.items()):
        if IMPORTERS.get(kind) != version:
            what = f"rows of {kind} were made by importer version {version}, now {IMPORTERS.get(kind)}"
            problems.append(Problem(what=what, file=f"{folder}/{LOCK_FILE}", fix=_FIX))
    return problems


_FIX = "restore it, or freeze again on purpose with 'gate ledger freeze'"

# Source kinds whose rows follow from the project's own fact files.
DERIVED = frozenset({"model_config", "sglang_trace", "synthetic"})


def stale_sources(locked: LedgerLock, *, folder: str, sources: Mapping[str, bytes]) -> list[Problem]:
    """Fact files that changed since the rows were derived from them."""
    changed = [name for name, sha in sorted(locked.sources.items()) if name in sources and sha256(sources[name]) != sha]
    return [
        Problem(
            what=f"the ledger was derived from another {name}",
            file=f"{folder}/{LOCK_FILE}",
            fix="run 'gate ledger build --all'",
        )
        for name in changed
    ]
