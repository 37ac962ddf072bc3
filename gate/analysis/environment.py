"""The two stacks: what each run says of its GPU and software, and which fields differ."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import msgspec

from gate.model.decision import Environment
from gate.model.outcome import AnyOutcome

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
# How a time was taken: rows that failed have none, so they do not differ in it.
TIMED_FIELDS = frozenset({"timing_method", "cache_state"})
COMPARED = TIMED_FIELDS.union(STACK_FIELDS)
_of_stack = attrgetter(*STACK_FIELDS)
_of_row = attrgetter(*ROW_FIELDS)
MOST_VALUES = 6


class Stacks(msgspec.Struct, frozen=True, kw_only=True):
    """What rows of one run say of GPU and software: their distinct stacks, the candidates' own rows, and the commits
    of the baselines by provider. `ran`: a candidate's row was measured."""

    stacks: frozenset[tuple[str | None, ...]]
    measured: frozenset[tuple[str | None, ...]]
    commits: frozenset[tuple[str, str | None]]
    ran: bool

    @staticmethod
    def of(rows: Iterable[AnyOutcome], candidates: frozenset[str]) -> Stacks:
        """Of some rows."""
        stacks, measured, commits, ran = set(), set(), set(), False
        for row in rows:
            stacks.add(_of_stack(row))
            if row.provider in candidates:
                measured.add(_of_row(row))
                ran = ran or row.benchmark_status == "ok"
            else:
                commits.add((f"{row.provider}_commit", row.baseline_commit))
        return Stacks(stacks=frozenset(stacks), measured=frozenset(measured), commits=frozenset(commits), ran=ran)

    def both(self, other: Stacks) -> Stacks:
        """These and the others."""
        return Stacks(
            stacks=self.stacks | other.stacks,
            measured=self.measured | other.measured,
            commits=self.commits | other.commits,
            ran=self.ran or other.ran,
        )

    def told(self) -> dict[str, str]:
        """Each field with what the run says of it."""
        found: dict[str, set[str | None]] = {}
        for names, tuples in ((STACK_FIELDS, self.stacks), (ROW_FIELDS, self.measured)):
            for values in tuples:
                for name, value in zip(names, values, strict=True):
                    found.setdefault(name, set()).add(value)
        for name, commit in self.commits:
            found.setdefault(name, set()).add(commit)
        told = {name: {value for value in values if value} for name, values in sorted(found.items())}
        return {name: _join(values) for name, values in told.items() if values}


def compare(base: Stacks, head: Stacks) -> Environment:
    """Both stacks and the fields that differ, where both runs say anything at all.

    Several values of one field are joined, so that a run on two GPUs shows both. Method and cache state are the
    candidates', as baselines may be timed in other ways, and told where both sides ran any.
    """
    was, now = base.told(), head.told()
    both = bool(was) and bool(now)
    fields = COMPARED if base.ran and head.ran else COMPARED - TIMED_FIELDS
    differences = (name for name in sorted({*was, *now} & fields) if both and was.get(name) != now.get(name))
    return Environment(base=was, head=now, differences=tuple(differences))


def _join(values: set[str]) -> str:
    ordered = sorted(values)
    more = f" and {len(ordered) - MOST_VALUES} more" if len(ordered) > MOST_VALUES else ""
    return ", ".join(ordered[:MOST_VALUES]) + more
