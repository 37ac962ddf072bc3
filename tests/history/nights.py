"""Makes histories for tests: one run a night, of a few shapes and providers, with times that a function gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gate.history import append, files, query, table
from gate.history.series import Timeline, timeline
from gate.model.history import Row, Wanted

FIRST = datetime(2026, 1, 30, tzinfo=UTC)
SHAPES = ("sha1:0000000000000001", "sha1:0000000000000002", "sha1:0000000000000003")
PROVIDERS = ("flydsl", "triton", "pytorch")
Times = Callable[[int, int, str], float]


def row(number: int, shape: int, provider: str, time_us: float | None, **fields: Any) -> Row:
    """A row of night `number`; `fields` replace what it has by default."""
    given: dict[str, Any] = {
        "run_id": f"night-{number}",
        "shape_id": SHAPES[shape],
        "provider": provider,
        "provider_detail": provider,
        "candidate_commit": f"{number:040x}",
        "gpu": "AMD Instinct MI350X",
        "arch": "gfx950",
        "rocm_version": "7.2.0",
        "correct": True,
        "benchmark_status": "ok",
        "median_us": time_us,
        "timing_method": "graph_slope",
        "cache_state": "cold_hbm",
        "op_type": "rmsnorm",
        "dtype": "bf16",
        "args": {"M": shape + 1, "N": 8192},
    }
    return Row(**{**given, **fields})


def night(number: int, times: Times, *, noise: float = 0.003, seed: int = 0, **fields: Any) -> list[Row]:
    """All rows of one night."""
    rng = random.Random(f"{seed} {number}")
    return [
        row(number, shape, provider, times(number, shape, provider) * (1 + rng.gauss(0, noise)), **fields)
        for shape in range(len(SHAPES))
        for provider in PROVIDERS
    ]


def add(store: Path, number: int, rows: Sequence[Row], base: Sequence[Row] = ()) -> append.Added:
    """Appends one night."""
    sides = {"head": list(rows)} | ({"base": list(base)} if base else {})
    at = FIRST + timedelta(days=number)
    return append.add(sides, store=store, name=f"night-{number}", at=at, have=append.known(store))


def fill(store: Path, nights: Iterable[int], times: Times = lambda number, shape, provider: 10.0, **how: Any) -> Path:
    """Appends several nights."""
    for number in nights:
        add(store, number, night(number, times, **how))
    return store


def series_of(store: Path, **wanted: Any) -> Timeline:
    """The series of a store."""
    return query.asked(
        files.listing(store),
        lambda reader, found: timeline(reader, Wanted(**wanted), runs=tuple(found.runs.values())),
    )[0]


def flat(number: int, shape: int, provider: str) -> float:
    """Times of a night that are those of every night."""
    return 10.0


def everything(store: Path) -> list[tuple[Any, ...]]:
    """All rows of a store with all columns, in an order of their own."""
    names = ", ".join(table.schema().names)
    found, _ = query.asked(files.listing(store), lambda reader, _: reader.rows(f"SELECT {names} FROM history"))
    return sorted(found, key=repr)
