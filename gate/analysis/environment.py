"""The two stacks: what each run says of its GPU and software, and which fields differ."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from gate.analysis.book import Book
from gate.model.decision import Environment

STACK_FIELDS = (
    "gpu",
    "arch",
    "rocm_version",
    "driver_version",
    "torch_version",
    "triton_version",
    "sglang_commit",
)
# The candidate's own versions are what is judged: shown, and no difference of the environment.
ROW_FIELDS = ("timing_method", "cache_state", "candidate_commit", "flydsl_version", "llvm_version", "kernels_sha")
COMPARED = frozenset({*STACK_FIELDS, "timing_method", "cache_state"})
_of_stack = attrgetter(*STACK_FIELDS)
_of_row = attrgetter(*ROW_FIELDS)
MOST_VALUES = 6


def compare(base: Book, head: Book, candidates: Iterable[str]) -> Environment:
    """Both stacks and the fields that differ, where both runs say anything at all.

    Several values of one field are joined, so that a run on two GPUs shows both. Method and cache state are the
    candidates', as baselines may be timed in other ways.
    """
    names = frozenset(candidates)
    was, now = _stack(base, names), _stack(head, names)
    both = bool(was) and bool(now)
    differences = (name for name in sorted({*was, *now} & COMPARED) if both and was.get(name) != now.get(name))
    return Environment(base=was, head=now, differences=tuple(differences))


def _stack(book: Book, candidates: frozenset[str]) -> dict[str, str]:
    stacks = {_of_stack(outcome) for outcome in book}
    measured = {_of_row(outcome) for name in candidates for outcome in book.rows.get(name, {}).values()}
    commits = {
        (f"{provider}_commit", outcome.baseline_commit)
        for provider, rows in book.rows.items()
        if provider not in candidates
        for outcome in rows.values()
    }
    found: dict[str, set[str | None]] = {}
    for names, tuples in ((STACK_FIELDS, stacks), (ROW_FIELDS, measured)):
        for values in tuples:
            for name, value in zip(names, values, strict=True):
                found.setdefault(name, set()).add(value)
    for name, commit in commits:
        found.setdefault(name, set()).add(commit)
    told = {name: {value for value in values if value} for name, values in sorted(found.items())}
    return {name: _join(values) for name, values in told.items() if values}


def _join(values: set[str]) -> str:
    ordered = sorted(values)
    more = f" and {len(ordered) - MOST_VALUES} more" if len(ordered) > MOST_VALUES else ""
    return ", ".join(ordered[:MOST_VALUES]) + more
