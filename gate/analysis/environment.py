"""The two stacks: what each run says of its GPU and software, and which fields differ."""

from __future__ import annotations

from collections.abc import Iterable

from gate.analysis.book import Book
from gate.model.decision import Environment
from gate.model.outcome import Outcome

FIELDS = (
    "gpu",
    "arch",
    "rocm_version",
    "driver_version",
    "torch_version",
    "triton_version",
    "sglang_commit",
    "flydsl_version",
    "llvm_version",
    "kernels_sha",
    "timing_method",
    "cache_state",
)
MOST_VALUES = 6


def compare(base: Book, head: Book, candidates: Iterable[str]) -> Environment:
    """Both stacks and the fields that differ, where both runs say anything at all.

    Several values of one field are joined, so that a run on two GPUs shows both. Method and cache state are the
    candidates', as baselines may be timed in other ways.
    """
    names = frozenset(candidates)
    was, now = _stack(base, names), _stack(head, names)
    differences = tuple(field for field in was if field in now and was[field] != now[field])
    one_sided = tuple(field for field in FIELDS if (field in was) != (field in now)) if was and now else ()
    commits = {"candidate_commit"}
    return Environment(
        base=was, head=now, differences=tuple(name for name in (*differences, *one_sided) if name not in commits)
    )


def _stack(book: Book, candidates: frozenset[str]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for outcome in book:
        _add(found, outcome, FIELDS[:-2])
        if outcome.provider in candidates:
            _add(found, outcome, ("timing_method", "cache_state", "candidate_commit"))
        elif outcome.baseline_commit:
            found.setdefault(f"{outcome.provider}_commit", set()).add(outcome.baseline_commit)
    return {field: _join(values) for field, values in sorted(found.items())}


def _add(found: dict[str, set[str]], outcome: Outcome, fields: tuple[str, ...]) -> None:
    for field in fields:
        value = getattr(outcome, field)
        if value is not None:
            found.setdefault(field, set()).add(value)


def _join(values: set[str]) -> str:
    ordered = sorted(values)
    more = f" and {len(ordered) - MOST_VALUES} more" if len(ordered) > MOST_VALUES else ""
    return ", ".join(ordered[:MOST_VALUES]) + more
