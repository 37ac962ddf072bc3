"""What is written down of a stored baseline: the run it came from, by what right, and what it replaced."""

from __future__ import annotations

import datetime as dt
from typing import Literal

import msgspec


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate's new times over those they replaced (above 1 = slower now), on `n` rows measured in one way.

    Only told and written down: the judge decides against the base of the run. Over the lines of a provenance the
    geomeans multiply to the drift that no single run shows.
    """

    n: int
    slower: int
    geomean: float
    worst: float
    worst_shape_id: str


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """One line of provenance.jsonl: what became the baseline, of which run, by what right.

    Line n + 1 put its file in the place of what now lies in history/<n>/. `contents` says which file: times are
    benchmark_results.jsonl, machine_code is codegen_records.jsonl, and `sha256` is that file's. `how` is promoted
    (a decision let it pass) or recorded (the first one of a machine; there is no decision, and the hashes of decision
    and policy are null). `rows` counts the lines of the file, `timed` the candidate's times or codes, `unsupported`
    the shapes that the candidate declares it has no kernel for, `missing` those that were not measured, which only the
    first one of a machine may lack, and only on purpose. `waived` are rows slower than before that a person accepted.
    In release/<name>/ the one line says of which baseline the pinned file is a copy: `release` is the name, `pinned`
    the day.
    """

    schema: Literal["gate.baseline/1"] = "gate.baseline/1"
    contents: Literal["times", "machine_code"]
    how: Literal["promoted", "recorded"]
    op_type: str
    date: dt.date
    commit: str
    run: str
    arch: str
    gpu: str | None
    candidate: str
    stack: dict[str, str]
    timing_method: str
    cache_state: str | None
    sha256: str
    rows: int
    timed: int
    unsupported: int = 0
    missing: int = 0
    decision_sha256: str | None = None
    policy_sha256: str | None = None
    verdicts: dict[str, int] = {}
    waived: tuple[str, ...] = ()
    replaced: Replaced | None = None
    release: str | None = None
    pinned: dt.date | None = None
