"""Which lane takes which job next: a lane stays with an op while it can, for its workers have loaded that op's code."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable

from gate.replay.job import Job


def by_op(job: Job) -> str:
    """Jobs of an op lie on one pile."""
    return job.case.op_type


class Waiting:
    """Jobs that several lanes take from piles; with `pile_of` left out there is one, taken in order."""

    def __init__(self, jobs: Iterable[Job] = (), *, pile_of: Callable[[Job], str] = lambda job: "") -> None:
        self._pile_of = pile_of
        self._piles: dict[str, deque[Job]] = {}
        self._lanes: Counter[str] = Counter()
        self._lock = threading.Lock()
        for job in jobs:
            self.put(job)

    def put(self, job: Job) -> None:
        """Adds a job to the end of its pile."""
        self._piles.setdefault(self._pile_of(job), deque()).append(job)

    def take(self, last: Job | None) -> Job | None:
        """The next job for the lane that did `last`: of the same pile, else of the first pile that has the fewest
        lanes; None when all are taken."""
        with self._lock:
            before = None if last is None else self._pile_of(last)
            if before is not None and self._piles[before]:
                return self._piles[before].popleft()
            if before is not None:
                self._lanes[before] -= 1
            left = [name for name, jobs in self._piles.items() if jobs]
            if not left:
                return None
            pile = min(left, key=lambda name: self._lanes[name])
            self._lanes[pile] += 1
            return self._piles[pile].popleft()
